"""A real MQTT broker, mosquitto, on loopback."""

import getpass
import socket
import subprocess
import time
from pathlib import Path

from runtimes import program

_PATIENCE_S = 30


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def unavailable():
    """Why there is no mosquitto here; empty when there is one."""
    try:
        program("mosquitto")
    except RuntimeError as e:
        return str(e)
    return ""


class Mosquitto:
    """A mosquitto on a free port whose files stand in `folder`. `lines` of configuration are added;
    a line replaces the default of the same name. Raises RuntimeError if there is no mosquitto."""

    def __init__(self, folder, *lines):
        self.folder = Path(folder)
        self.port = free_port()
        self._process = None
        self._argv = [*program("mosquitto"), "-c", str(self.folder / "mosquitto.conf")]
        self.folder.mkdir(parents=True, exist_ok=True)
        defaults = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            "persistence true",
            f"persistence_location {self.folder}/",
            f"user {getpass.getuser()}",
            "max_queued_messages 0",  # nothing of a backlog is thrown away
        ]
        given = {line.split()[0] for line in lines}
        kept = [line for line in defaults if line.split()[0] not in given]
        (self.folder / "mosquitto.conf").write_text("\n".join([*kept, *lines]) + "\n")

    def start(self):
        """Returns when it takes connections. Raises RuntimeError if it does not."""
        with open(self.folder / "mosquitto.log", "ab") as log:
            self._process = subprocess.Popen(self._argv, stdout=log, stderr=log)
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.01)
        self.kill()
        raise RuntimeError(f"mosquitto does not start:\n{self.log()}")

    def log(self):
        """The end of what it said."""
        return (self.folder / "mosquitto.log").read_text(errors="replace")[-4000:]

    def stop(self):
        """An orderly end: it saves its sessions."""
        self._end(subprocess.Popen.terminate)

    def kill(self):
        """It vanishes: what it had not saved is forgotten."""
        self._end(subprocess.Popen.kill)

    def _end(self, how):
        if self._process:
            how(self._process)
            self._process.wait(_PATIENCE_S)
            self._process = None

    def restart(self):
        self.stop()
        self.start()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
