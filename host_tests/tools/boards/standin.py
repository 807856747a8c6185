"""A fake board: standin_board.py on MicroPython's unix port, on a TCP port that mpremote can use."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from littlefs import LittleFS, UserContextFile

from tools.demo.sensors import best_runtime

_SCRIPT = Path(__file__).with_name("standin_board.py")
_BLOCK = 4096


def interpreter():
    """The Runtime of fake boards. Without one the test is skipped."""
    try:
        return best_runtime()
    except RuntimeError as e:
        pytest.skip(str(e), allow_module_level=True)


def flash(folder):
    """{path: content} of the files in the flash of the board in `folder`."""
    image = folder / "flash.img"
    blocks = image.stat().st_size // _BLOCK
    sizes = {"block_size": _BLOCK, "block_count": blocks, "read_size": 32, "prog_size": 32, "cache_size": 128}
    system = LittleFS(UserContextFile(str(image)), **sizes)
    found = {}
    for top, _, names in system.walk("/"):
        for name in names:
            with system.open(f"{top.rstrip('/')}/{name}", "rb") as file:
                found[f"{top.rstrip('/')}/{name}"] = file.read()
    return found


class StandIn:
    """Its flash is a file in `folder`, which stays. `frozen`: what its firmware tells about modules of Inflight that
    are frozen in; empty if none are. `machine`: what MicroPython calls it. After `cut_after` bytes from the host the
    cable is pulled and the power is cut. After `writes` writes nothing reaches the flash."""

    def __init__(
        self,
        folder,
        runtime=None,
        blocks=128,
        platform="linux",
        rom=0,
        writes=1 << 29,
        usb=False,
        frozen="",
        machine="stand-in",
    ):
        (folder / "home").mkdir(exist_ok=True)
        self.flash = folder / "flash.img"
        if not self.flash.exists():
            self.flash.write_bytes(b"\xff" * blocks * _BLOCK)
            # The unix board creates its journal by a rename, which MicroPython cannot do in a mounted folder.
            (folder / "home" / "journal.bin").write_bytes(b"\xff" * 16 * _BLOCK)
            Path(f"{self.flash}.rom").write_bytes(bytes(rom))
        runtime = runtime or interpreter()
        self._argv = [*runtime.command("400k"), str(_SCRIPT), str(self.flash), platform, str(rom), str(writes)]
        self._env = {**os.environ, "INFLIGHT_HOME": "/home", "INFLIGHT_DEVICE_ID": "box"}
        self._env["STANDIN_HOME"] = str(folder / "home")
        self._env["STANDIN_FROZEN"] = frozen
        self._env["STANDIN_MACHINE"] = machine
        self._server = socket.create_server(("127.0.0.1", 0))
        self._process = self._client = None
        self._usb = usb
        self.cut_after = None
        self.received = bytearray()  # from the host
        self.starts = 0
        self._lock = threading.Lock()
        self._ready = threading.Event()

    @property
    def port(self):
        return f"socket://127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self):
        self._start()
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.off()

    def off(self):
        """Cuts the power and pulls the cable."""
        with self._lock:
            self._stop()

    def reset(self):
        """Presses the reset button: the USB port disappears, and the board starts again."""
        with self._lock:
            self._stop()
            self._start()

    def _stop(self):
        self._on = False
        self._process.kill()
        self._process.wait()
        self._disconnect()

    def _start(self):
        self.starts += 1
        self._on = True
        self._ready.clear()
        self._process = subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            env=self._env,
        )
        threading.Thread(target=self._forward_output, args=(self._process,), daemon=True).start()

    def _disconnect(self):
        client = self._client
        if client:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _forward_output(self, process):
        """Sends the board's output to the client, if there is one. Starts the board again after it has reset itself
        (Ctrl-C while its process ends changes the status of that); with `usb` the port disappears meanwhile."""
        ran = process.stdout.read(1)
        self._ready.set()
        while data := process.stdout.read(4096):
            client = self._client
            if client:
                with contextlib.suppress(OSError):
                    client.sendall(data)
        process.wait()
        with self._lock:
            if ran and self._on and process is self._process:
                if self._usb:
                    self._disconnect()
                self._start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                self._client, _ = self._server.accept()
                with self._client as client:
                    self._receive(client)
                self._client = None

    def _receive(self, client):
        with contextlib.suppress(OSError, ValueError):
            while (data := client.recv(4096)) and self._on:
                self.received += data
                if self.cut_after is not None and len(self.received) >= self.cut_after:
                    self.off()
                    return
                self._forward_input(data)

    @staticmethod
    def _wait_until_idle(process):
        """Until a board's program sleeps, reads or writes, or has ended: the unix port leaves what it is at on a
        signal, and the lock of its heap stays closed for ever if that is an allocation."""
        with contextlib.suppress(OSError):
            while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "R":
                time.sleep(0.001)

    def _forward_input(self, data):
        for part in data.replace(b"\x03", b"\0\x03\0").split(b"\0"):
            self._ready.wait()  # before, Ctrl-C would end the process
            with contextlib.suppress(BrokenPipeError):  # of a board that starts again, which does not listen
                if part == b"\x03":
                    process = self._process
                    self._wait_until_idle(process)
                    process.send_signal(signal.SIGINT)
                elif part:
                    self._process.stdin.write(part)
