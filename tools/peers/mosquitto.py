"""A real MQTT broker, mosquitto, on loopback."""

import base64
import getpass
import hashlib
from functools import partial

from tools import runtimes
from tools.peers.daemon import Daemon
from tools.setup.common import CHECKOUT

EXAMPLE = CHECKOUT / "examples" / "mosquitto"
_OF_A_PLACE = ("listener", "certfile", "keyfile", "password_file", "acl_file", "persistence_location")


unavailable = partial(runtimes.unavailable, "mosquitto")  # a text; empty when there is one


def only(folder, passwords):
    """Lines of a configuration: only these users may connect, {name: password}. Their hashes are in `folder`."""
    file = folder / "passwords"
    file.write_text("".join(f"{user}:{_hash(secret)}\n" for user, secret in passwords.items()))
    return [f"password_file {file}", "allow_anonymous false"]


def _hash(secret):
    salt = b"salt" * 3
    digest = hashlib.pbkdf2_hmac("sha512", secret.encode(), salt, 101, 64)
    return f"$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def password(user):
    """The password of a user of of_a_fleet()."""
    return f"the password of {user}"


def of_a_fleet(folder, users):
    """Lines of the configuration in examples/mosquitto, on one listener without TLS, for these users."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = (EXAMPLE / "mosquitto.conf").read_text().splitlines()
    kept = [line for line in lines if line and not line.startswith(("#", *_OF_A_PLACE))]
    return [*kept, *only(folder, {user: password(user) for user in users}), f"acl_file {EXAMPLE / 'access'}"]


class Mosquitto(Daemon):
    """A mosquitto on a free port, with its files in `folder`. `lines` are added to its configuration; a line replaces
    the default of the same name. Raises RuntimeError if there is no mosquitto."""

    name = "mosquitto"

    def __init__(self, folder, *lines):
        super().__init__(folder)
        configuration = self.folder / "mosquitto.conf"
        self.argv = [*runtimes.program("mosquitto"), "-c", str(configuration)]
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
