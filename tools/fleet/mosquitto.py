"""A real MQTT broker, mosquitto, on loopback."""

import getpass
import socket
import subprocess
import time

from runtimes import program


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Mosquitto:
    """A mosquitto whose files stand in `folder`. `lines` are further lines of its configuration;
    they may replace the listener, which is then told by `port`. Raises RuntimeError if there is
    no mosquitto, or if it does not start."""

    def __init__(self, folder, lines=(), port=None, start_s=10):
        self.folder = folder
        self.port = port or free_port()
        self._start_s = start_s
        self._process = None
        self._argv = program("mosquitto")
        folder.mkdir(parents=True, exist_ok=True)
        self.configure(lines)

    def configure(self, lines):
        """Writes the configuration; start() reads it."""
        given = {line.split()[0] for line in lines}
        defaults = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            "persistence true",
            f"persistence_location {self.folder}/",
            f"user {getpass.getuser()}",
            # Nothing of a backlog is thrown away.
            "max_queued_messages 0",
        ]
        text = [line for line in defaults if line.split()[0] not in given] + list(lines)
        (self.folder / "mosquitto.conf").write_text("\n".join(text) + "\n")

    def start(self):
        with open(self.folder / "mosquitto.log", "ab") as log:
            self._process = subprocess.Popen(
                [*self._argv, "-c", str(self.folder / "mosquitto.conf")], stdout=log, stderr=log
            )
        end = time.monotonic() + self._start_s
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"mosquitto does not start: {(self.folder / 'mosquitto.log').read_text()[-500:]}")

    def stop(self):
        """An orderly end: it saves its sessions."""
        self._end(subprocess.Popen.terminate)

    def kill(self):
        """It vanishes: what it had not saved is forgotten."""
        self._end(subprocess.Popen.kill)

    def _end(self, how):
        if self._process:
            how(self._process)
            self._process.wait(30)
            self._process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
