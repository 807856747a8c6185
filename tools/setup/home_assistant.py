"""Home Assistant in an environment of its own in the cache, with what its MQTT integration imports and no more: the
newest that CPython 3.11 runs. Its packages are those that the check imports."""

import sys

from inflight_tools.cache import cache_dir
from tools.setup import environment
from tools.setup.common import CHECKOUT, SetupError, say

LOCK = CHECKOUT / "tools/home_assistant/home_assistant.lock"
PYTHONS = ((3, 11), (3, 12))  # of its wheels
# The versions are those that this Home Assistant asks for; the others are free.
PACKAGES = """\
homeassistant==2024.3.3
aiohttp==3.9.3
aiohttp-fast-url-dispatcher==0.3.0
aiohttp-zlib-ng==0.3.1
aiosignal
async-interrupt==1.1.1
atomicwrites-homeassistant==1.4.1
attrs==23.2.0
awesomeversion==24.2.0
bcrypt==4.1.2
certifi
cffi
ciso8601==2.3.1
cryptography==42.0.5
frozenlist
idna
ifaddr==0.2.0
Jinja2==3.1.3
lru-dict==1.3.0
MarkupSafe
multidict
orjson==3.9.15
packaging
propcache
pycparser
PyJWT==2.8.0
python-slugify==8.0.4
PyYAML==6.0.1
text-unidecode
typing-extensions
ulid-transform==0.9.0
voluptuous==0.13.1
voluptuous-serialize==2.6.0
yarl==1.9.4
zlib-ng
"""


def _folder():
    return cache_dir() / "home-assistant" / environment.key(LOCK)


def unavailable():
    """Why there is no Home Assistant here; empty if there is one."""
    if not environment.ready(_folder(), LOCK):
        return "Home Assistant is not set up: run `make test-home-assistant`"
    return ""


def python():
    """The interpreter that can import Home Assistant."""
    return _folder() / "bin/python"


def ensure(installer):
    """Returns True if there was something to do. Raises SetupError."""
    if sys.version_info[:2] not in PYTHONS:
        raise SetupError("this Home Assistant needs CPython 3.11 or 3.12: make PYTHON=python3.11 test-home-assistant")
    made = environment.ensure(_folder(), LOCK)
    if made:
        say("Home Assistant takes some 350 MB in the cache")
    return made
