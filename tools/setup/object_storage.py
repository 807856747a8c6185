"""moto, a stand-in for S3, in an environment of its own in the cache."""

from tools.setup.common import CHECKOUT
from tools.setup.environment import Apart

LOCK = CHECKOUT / "tools/peers/object_storage/moto.lock"
_APART = Apart("object-storage", LOCK, "moto is not set up: run `make test-object-storage`")
unavailable, ensure = _APART.unavailable, _APART.ensure


def command():
    """The command line that serves S3, to which options are added."""
    return [_APART.program("python"), "-m", "moto.server"]
