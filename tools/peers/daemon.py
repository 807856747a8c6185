"""A server on loopback that a test starts, stops, restarts and kills."""

import socket
import subprocess
import time
import weakref
from pathlib import Path

_PATIENCE_S = 300  # on a loaded machine


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


class Daemon:
    """A process that listens on `port`, with its files in `folder`. Subclasses define `name` and `argv`."""

    name: str
    argv: list
    environ: dict | None = None  # None: inherited

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = held_port(self)
        self._process = None

    @property
    def file(self):
        """Its log file."""
        return self.folder / f"{self.name}.log"

    def start(self):
        """Returns when it accepts connections. Raises RuntimeError if it does not."""
        with open(self.file, "ab") as log:
            self._process = subprocess.Popen(self.argv, stdout=log, stderr=log, env=self.environ, cwd=self.folder)
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.01)
        self.kill()
        raise RuntimeError(f"{self.name} does not start:\n{self.log()}")

    def log(self):
        """The end of its log."""
        return self.file.read_text(errors="replace")[-4000:]

    def stop(self):
        """Ends it by SIGTERM: it saves its state."""
        self._end(subprocess.Popen.terminate)

    def kill(self):
        """Ends it by SIGKILL: unsaved state is lost."""
        self._end(subprocess.Popen.kill)

    def _end(self, how):
        if self._process:
            how(self._process)
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise RuntimeError(f"{self.name} does not end when asked to:\n{self.log()}") from None
            finally:
                self._process = None

    def restart(self):
        self.stop()
        self.start()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
