"""A board on its cable: runs code on it and writes files to it, by mpremote's raw REPL."""

import base64
import contextlib
import io
import os
import struct
import time

from mpremote.transport import TransportError
from mpremote.transport_serial import SerialTransport
from serial.tools import list_ports

_PROMPT_S = 3
_ATTEMPTS = 8  # Ctrl-C has no effect while a board starts, and is delayed during name resolution
_QUIET_S = 0.5
_SILENCE_S = 60  # a command without output for so long has failed
_BATCH = 2048  # bytes of files per command: the board holds them three times
# The interrupted firmware's watchdog is still running, and must be fed.
_FEED = """
def _feed():
 import sys
 b = sys.modules.get('board')
 if hasattr(b, 'watchdog'): b.watchdog(120000)
"""


class DeviceError(RuntimeError):
    """What is wrong with the board or its cable, in one line that tells what to do; never contains written data."""


def refusal(port):
    """Why the serial port `port` does not open."""
    if "://" in port:
        return f"no answer at {port}"
    if not os.path.exists(port) and port not in {found.device for found in list_ports.comports()}:
        return f"no port {port}: plug the board in; `mpremote devs` lists the ports"
    if os.path.isfile(port) or os.path.isdir(port):
        return f"{port} is no serial port: `mpremote devs` lists them"
    if os.path.exists(port) and not os.access(port, os.R_OK | os.W_OK):
        return f"{port} is not yours to open: join its group (`sudo usermod -aG dialout $USER`, then log in again)"
    return f"{port} is busy: close what uses it, another monitor or terminal"


class Link:
    """The board on `port` (a device, or any URL of pyserial). Its program is interrupted as by Ctrl-C. Leaving the
    `with` resets it in any case, so that no board stays stopped. Raises DeviceError."""

    def __init__(self, port):
        self._port = port
        self.transport = None

    def __enter__(self):
        try:
            self.transport = SerialTransport(self._port, timeout=_SILENCE_S)
        except (TransportError, OSError):
            raise DeviceError(refusal(self._port)) from None
        try:
            self._interrupt()
            self.run(_FEED, feed=False)
        except BaseException:
            self._close()
            raise
        return self

    def _interrupt(self):
        for attempt in range(_ATTEMPTS):
            if self._prompt():
                if attempt:  # answers to earlier attempts may still arrive
                    with contextlib.suppress(OSError):
                        self.transport.read_until(1, b"\0", timeout=_QUIET_S)
                    self._prompt()
                return
        raise DeviceError(
            f"no MicroPython answers on {self._port}: press the board's reset button and try again "
            "(a sensor that sleeps does not listen); `inflight board flash` writes MicroPython to an empty board"
        )

    def _prompt(self):
        # mpremote prints the data that it received instead of a prompt.
        with contextlib.suppress(TransportError, OSError), contextlib.redirect_stdout(io.StringIO()):
            self.transport.enter_raw_repl(soft_reset=False, timeout_overall=_PROMPT_S)
            return True
        return False

    def run(self, code, feed=True):
        """Runs `code` on the board; returns its output."""
        code = ("_feed()\n" if feed else "") + code
        try:
            output, problem = self.transport.exec_raw(code, timeout=_SILENCE_S)
        except (TransportError, OSError, struct.error):
            # Not mpremote's text: it may quote data that the board echoed, such as a configuration.
            raise DeviceError(f"the connection to {self._port} was lost: check the cable and run it again") from None
        if problem:
            raise DeviceError(_explain(problem.decode(errors="replace")))
        return output.decode(errors="replace").replace("\r\n", "\n")

    def put(self, contents, progress=lambda path: None):
        """Writes new files, {path: content}, in few commands that fit a small heap. `progress` is called with each
        path."""
        batch, size = "from binascii import a2b_base64\n", 0
        for path, content in contents.items():
            progress(path)
            batch += f"f = open({path!r}, 'wb')\n"
            while content:
                left = max(_BATCH - size, 1)
                batch += f"n = f.write(a2b_base64({base64.b64encode(content[:left])!r}))\n"
                size += len(content[:left])
                content = content[left:]
                if size >= _BATCH:
                    self.run(batch)
                    batch, size = "", 0
            batch += "f.close()\n"
        self.run(batch)

    def __exit__(self, *_):
        with contextlib.suppress(TransportError, OSError, struct.error):
            self.transport.exec_raw_no_follow("import machine\nmachine.reset()")
            time.sleep(_QUIET_S)  # the port must have disappeared before it is opened again
        self._close()

    def _close(self):
        with contextlib.suppress(OSError):
            self.transport.close()


def _explain(traceback):
    """One line of a traceback from the board."""
    last = (traceback.strip().splitlines() or ["?"])[-1]
    if "ENOSPC" in last or last == "OSError: 28":
        return "the board's file system is full: remove files of yours (`mpremote ls`, `mpremote rm`)"
    if "EROFS" in last or last == "OSError: 30":
        return "the board's file system is read-only: `inflight board flash` writes a new one"
    return f"the board says: {last}"
