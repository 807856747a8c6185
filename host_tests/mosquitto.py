"""A real broker for tests: mosquitto on a free port of loopback, to be stopped, restarted and killed."""

import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import runtimes

PATIENCE_S = 10


def unavailable():
    """Why there is no mosquitto here; empty when there is one."""
    try:
        runtimes.program("mosquitto")
    except RuntimeError as reason:
        return str(reason)
    return ""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


class Mosquitto:
    """A broker whose configuration, log and database stand in `folder`; `lines` are added to its configuration."""

    def __init__(self, folder, *lines, anonymous=True):
        self.folder = Path(folder)
        self.port = free_port()
        self._process = None
        settings = [
            f"listener {self.port} 127.0.0.1",
            f"allow_anonymous {str(anonymous).lower()}",
            "user root",
            "persistence true",
            f"persistence_location {self.folder}/",
            f"log_dest file {self.folder}/log",
            "log_type all",
            "max_queued_messages 0",
            *lines,
        ]
        (self.folder / "conf").write_text("\n".join(settings) + "\n")

    def start(self):
        """Returns when it takes connections."""
        argv = [*runtimes.program("mosquitto"), "-c", str(self.folder / "conf")]
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"mosquitto does not start:\n{self.log()}") from None
                time.sleep(0.01)

    def log(self):
        file = self.folder / "log"
        return file.read_text(errors="replace")[-4000:] if file.exists() else ""

    def _end(self, stop):
        if self._process:
            stop(self._process)
            self._process.wait(PATIENCE_S)
            self._process = None

    def stop(self):
        """Ends it as an administrator would: what it persists is written."""
        self._end(subprocess.Popen.terminate)

    def kill(self):
        """Ends it as a power cut would."""
        self._end(subprocess.Popen.kill)

    def restart(self):
        self.stop()
        self.start()
