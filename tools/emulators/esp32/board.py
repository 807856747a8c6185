"""The emulated board: a process of QEMU, and a file for its flash."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from tools.emulators.esp32 import emulator, power
from tools.emulators.esp32.chip import CHIP, MAC
from tools.emulators.esp32.console import Console
from tools.patience import Patience

SSID = "PICSimLabWifi"  # an access point without a key
HOST = "192.168.4.2"  # what the board dials to reach 127.0.0.1 here
_NETWORK = "192.168.4.0/24"
_QMP_S = 30
_DOWNLOAD = ("-global", f"driver={CHIP.name}.gpio,property=strap_mode,value={CHIP.download}")
_NO_WATCHDOGS = ("-global", f"driver=timer.{CHIP.name}.timg,property=wdt_disable,value=true")


class Board:
    """An ESP32 with the bytes `flash`; a context manager that leaves no process behind. watchdogs: those of the chip
    are on; the 300 ms of one are short on a host that has other work. network: is there an access point. console: what
    it has printed; notes: the numbers that it printed after the word NOTE; port: where pyserial finds its serial line.
    power: of this life, after switch_on(watched=True)."""

    def __init__(self, flash, mac=MAC, watchdogs=False, network=True):
        self._folder = tempfile.TemporaryDirectory(prefix="esp32-")
        self._flash = Path(self._folder.name) / "flash"
        self._fuses = Path(self._folder.name) / "fuses"
        self._qmp = str(Path(self._folder.name) / "qmp")
        self._flash.write_bytes(flash)
        self._fuses.write_bytes(CHIP.fuses(mac))
        self._options = (() if watchdogs else _NO_WATCHDOGS) + (
            ("-nic", f"user,model={CHIP.wifi},net={_NETWORK},id=net0") if network else ()
        )
        self._words = self._flash.with_name("words")  # what QEMU itself has to say
        self._process = None
        self._console = Console()
        self.port = f"socket://127.0.0.1:{self._console.port}"
        self.power = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.switch_off()
        self._console.close()
        self._folder.cleanup()

    @property
    def console(self):
        return self._console.said

    @property
    def notes(self):
        return self._console.notes

    def write(self, flash):
        """Puts {address: bytes} into the flash of a board that is off."""
        with open(self._flash, "r+b") as f:
            for address, data in dict(flash).items():
                f.seek(address)
                f.write(data)

    def snapshot(self):
        """What the flash of a board that is off holds."""
        if self.power and self.power.cut:
            self.switch_off()
        return self._flash.read_bytes()

    # --- its life ---

    def switch_on(self, watched=False, download=False):
        """From cold. watched: its flash operations are seen, and `power` can cut at them; they take longer then.
        download: it stays in its ROM and waits for esptool."""
        self._console.clear()
        here, there = line()
        words, errors = power.pipe() if watched else (None, None)
        with open(self._words, "wb") as file:
            self._process = subprocess.Popen(
                self._command(there.fileno(), watched, download),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=errors if watched else file,
                pass_fds=[there.fileno()],
                start_new_session=True,
            )
        there.close()
        _prefer(self._process.pid)
        self._console.listen(here)
        self.power = None
        if watched:
            os.close(errors)
            self.power = power.Power(self._flash.read_bytes(), words, self._kill, self._note_words)

    def _command(self, line, watched, download):
        return [
            *emulator.command(),
            *("-machine", CHIP.machine, "-display", "none", "-monitor", "none", "-no-user-config"),
            *("-drive", f"file={self._flash},if=mtd,format=raw"),
            *("-drive", f"file={self._fuses},if=none,format=raw,id=efuse"),
            *("-global", f"driver={CHIP.efuse},property=drive,value=efuse"),
            *("-chardev", f"socket,id=line,fd={line}", "-serial", "chardev:line"),
            *("-qmp", f"unix:{self._qmp},server=on,wait=off"),
            *self._options,
            *(power.OPTIONS if watched else ()),
            *(_DOWNLOAD if download else ()),
        ]

    def _kill(self):
        os.kill(self._process.pid, signal.SIGKILL)

    def switch_off(self):
        """Power goes, if it has not yet. What was programmed is in the flash."""
        if not self._process:
            return
        if self.power:
            self.power.off()
            self._process.wait()
            self._flash.write_bytes(self.power.join())
        else:
            with contextlib.suppress(OSError, ValueError):
                self.qmp("stop")  # it writes what it has programmed to the file
            self._process.kill()
            self._process.wait()
        self._console.join()
        self._process = None

    def reset(self):
        """The reset button."""
        self.qmp("system_reset")

    def qmp(self, command, /, **arguments):
        """Executes one command of QEMU's own."""
        with socket.socket(socket.AF_UNIX) as s, s.makefile("rwb") as f:
            s.settimeout(_QMP_S)
            s.connect(self._qmp)
            f.readline()
            for said in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                f.write(json.dumps(said).encode() + b"\n")
                f.flush()
                while "event" in (answer := json.loads(f.readline())):
                    pass
        return answer

    def network_away(self):
        """What is behind the access point goes; the access point cannot."""
        self.qmp("set_link", name="net0", up=False)

    def network_back(self):
        self.qmp("set_link", name="net0", up=True)

    def send(self, data):
        """Sends bytes over the serial line."""
        self._console.type(data)

    def type(self, text):
        """As a person at the terminal."""
        self.send(text.encode())

    async def prompt(self, seconds):
        """Waits until it waits for a line."""
        await self.until(lambda: self.console.endswith(b">>> "), seconds, "the prompt")

    async def execute(self, line, seconds, end=b">>> "):
        """Types `line` at the prompt, and waits until it prints `end`: if nothing else, the next prompt."""
        await self.prompt(seconds)
        known = len(self.console)
        self.type(line + "\r")
        await self.until(lambda: end in self.console[known:], seconds, f"the end of {line}")

    async def until(self, happened, seconds, what):
        """Waits until happened() is true, and returns what it returned. TimeoutError with the end of the console if the
        board says nothing, and does nothing to its flash, for so many seconds. RuntimeError if it stops before."""
        patience = Patience(seconds)
        while not (found := happened()):
            if not self._process or self._process.poll() is not None:
                self._console.join()
                if found := happened():
                    break
                words = self._words.read_text(errors="replace")[-500:]
                raise RuntimeError(f"the board stopped before {what}:\n{words}\n{self.tail()}")
            if patience.over((len(self.console), self.power and len(self.power.operations))):
                raise TimeoutError(
                    f"nothing for {seconds} s before {what}{CHIP.silent}; the console says:\n{self.tail()}"
                )
            await asyncio.sleep(0.01)
        return found

    def tail(self):
        return self.console[-2000:].decode(errors="replace")

    def _note_words(self, words):
        with open(self._words, "ab") as file:
            file.write(words)


def line():
    """Two ends of a serial line. Over TCP: a pair of Unix sockets is full after some 280 bytes that are sent one by
    one, and what a board says to a full line is lost."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        end = socket.create_connection(server.getsockname())
        return server.accept()[0], end


def _prefer(process):
    # Its two processors wait for each other at each operation of the flash: on a host with other work that takes far
    # longer than the work itself. Linux may give each session its own share, in which `nice` counts for nothing.
    with contextlib.suppress(OSError):
        Path(f"/proc/{process}/autogroup").write_text("-10")
