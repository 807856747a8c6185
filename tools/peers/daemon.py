"""Processes that tests and tools start, stop, restart and kill; servers on loopback among them."""

import os
import signal
import socket
import subprocess
import time
import weakref
from pathlib import Path


def held_port(owner, kind=socket.SOCK_STREAM):
    """A port that no other process gets while `owner` lives: bound here, and a daemon that sets SO_REUSEADDR shares
    it. Until then it refuses connections."""
    held = socket.socket(type=kind)
    held.bind(("127.0.0.1", 0))
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if kind == socket.SOCK_DGRAM:
        held.connect(held.getsockname())  # what others send is not for this socket
    weakref.finalize(owner, held.close)
    return held.getsockname()[1]


class Program:
    """A process of `argv` that is started and killed, again and again. `file` gets its output, the file `out`, if there
    is one, its standard output. environ: None: inherited. group: it is killed with all that it has started."""

    group = False
    patience_s = 300  # on a loaded machine
    environ: dict | None = None

    def __init__(self, file, argv=(), out=None):
        self.file = Path(file)
        self.argv: list = [*map(str, argv)]
        self._out = out or file
        self.process = None
        self.kills = 0

    def on(self, *argv, **options):
        """Starts it, or another command line of it."""
        options = {"env": self.environ, "start_new_session": self.group, **options}
        with open(self.file, "ab") as log, open(self._out, "ab") as out:
            self.process = subprocess.Popen(argv or self.argv, **{"stdout": out, "stderr": log, **options})

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def off(self):
        """Kills it. Returns False if it had already exited, which is an error."""
        alive = self.running
        if alive:
            os.killpg(self.process.pid, signal.SIGKILL) if self.group else self.process.kill()
            self.kills += 1
        if self.process:
            self.process.wait()
        return alive

    def stop(self):
        """Ends it by SIGTERM: it saves its state."""
        if self.running:
            self.process.terminate()
        return self.end() if self.process else None

    def end(self):
        """Waits until it exits, and returns its status. RuntimeError if it has to be killed after a time-out."""
        try:
            return self.process.wait(self.patience_s)
        except subprocess.TimeoutExpired:
            self.off()
            raise RuntimeError(f"{self.file.stem}: no end in {self.patience_s} s\n{self.log()}") from None

    def wait(self, condition):
        """Waits until condition() is true. RuntimeError if the process ends before, or that takes too long."""
        end = time.monotonic() + self.patience_s
        while not condition():
            if time.monotonic() > end or not self.running:
                raise RuntimeError(f"{self.file.stem} ended, or hangs:\n{self.log()}")
            time.sleep(0.01)

    def wait_for(self, words):
        """The same, until its log contains these words."""
        self.wait(lambda: self.file.exists() and words in self.file.read_text(errors="replace"))

    def log(self):
        """The end of its log."""
        return self.file.read_text(errors="replace")[-4000:] if self.file.exists() else ""


class Daemon(Program):
    """A process that listens on `port`, with its files in `folder`. Subclasses define `name` and `argv`."""

    name: str

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        super().__init__(self.folder / f"{self.name}.log")
        self.port = held_port(self)

    def start(self):
        """Returns when it accepts connections. Raises RuntimeError if it does not."""
        self.on(cwd=self.folder)
        try:
            self.wait(self._is_listening)
        except RuntimeError:
            self.kill()
            raise
        return self

    def _is_listening(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def kill(self):
        """Ends it by SIGKILL: unsaved state is lost."""
        self.off()

    def restart(self):
        self.stop()
        self.start()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
