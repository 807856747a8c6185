"""A real MQTT broker, mosquitto, on loopback."""

import getpass

from dev.runtimes import program

from .daemon import Daemon


def unavailable():
    """Why there is no mosquitto here; empty when there is one."""
    try:
        program("mosquitto")
    except RuntimeError as e:
        return str(e)
    return ""


class Mosquitto(Daemon):
    """A mosquitto on a free port, with its files in `folder`. `lines` are added to its configuration; a line replaces
    the default of the same name. Raises RuntimeError if there is no mosquitto."""

    name = "mosquitto"

    def __init__(self, folder, *lines):
        super().__init__(folder)
        configuration = self.folder / "mosquitto.conf"
        self.argv = [*program("mosquitto"), "-c", str(configuration)]
        defaults = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            "persistence true",
            f"persistence_location {self.folder}/",
            f"user {getpass.getuser()}",
            "max_queued_messages 0",  # no limit
        ]
        given = {line.split()[0] for line in lines}
        kept = [line for line in defaults if line.split()[0] not in given]
        configuration.write_text("\n".join([*kept, *lines]) + "\n")
