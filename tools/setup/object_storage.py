"""moto, a stand-in for S3, in an environment of its own in the cache."""

from tools.setup.common import CHECKOUT
from tools.setup.environment import Apart

LOCK = CHECKOUT / "tools/peers/object_storage/moto.lock"
APART = Apart("object-storage", LOCK)


def unavailable():
    """Why there is no stand-in here; empty if there is one."""
    return "" if APART.ready else "moto is not set up: run `make test-object-storage`"


def command():
    """The command line that serves S3, to which options are added."""
    return [APART.folder / "bin/python", "-m", "moto.server"]


def ensure(_installer):
    """Returns True if there was something to do. Raises SetupError."""
    return APART.ensure()
