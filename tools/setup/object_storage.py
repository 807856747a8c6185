"""moto, a stand-in for S3, in an environment of its own in the cache."""

from inflight_tools.cache import cache_dir
from tools.setup import environment
from tools.setup.common import CHECKOUT

LOCK = CHECKOUT / "tools/peers/object_storage/moto.lock"
PACKAGES = """\
moto[s3]~=5.2.0
flask
flask-cors
"""


def _folder():
    return cache_dir() / "object-storage" / environment.key(LOCK)


def unavailable():
    """Why there is no stand-in here; empty if there is one."""
    if not environment.ready(_folder(), LOCK):
        return "moto is not set up: run `make test-object-storage`"
    return ""


def command():
    """The command line that serves S3, to which options are added."""
    return [_folder() / "bin/python", "-m", "moto.server"]


def ensure(_installer):
    """Returns True if there was something to do. Raises SetupError."""
    return environment.ensure(_folder(), LOCK)
