"""Home Assistant in an environment of its own in the cache: the newest that CPython 3.11 runs, with what its core needs
for MQTT, recorder and frontend, and no more."""

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
aiohttp-cors==0.7.0
aiohttp-fast-url-dispatcher==0.3.0
aiohttp-zlib-ng==0.3.1
aiosignal
anyio==4.1.0
astral==2.2
async-interrupt==1.1.1
atomicwrites-homeassistant==1.4.1
attrs==23.2.0
awesomeversion==24.2.0
bcrypt==4.1.2
certifi
cffi
charset-normalizer
ciso8601==2.3.1
cryptography==42.0.5
fnv-hash-fast==0.5.0
fnvhash<0.2
frozenlist
greenlet
h11==0.14.0
home-assistant-frontend==20240307.0
httpcore==1.0.4
httpx==0.27.0
idna
ifaddr==0.2.0
janus==1.0.0
Jinja2==3.1.3
lru-dict==1.3.0
MarkupSafe
multidict<7
numpy==1.26.0
orjson==3.9.15
packaging
paho-mqtt==1.6.1
Pillow==10.2.0
psutil
psutil-home-assistant==0.0.1
pycparser
PyJWT==2.8.0
python-dateutil
python-slugify==8.0.4
pytz
PyYAML==6.0.1
requests==2.31.0
securetar==2024.2.1
sniffio
SQLAlchemy==2.0.27
text-unidecode
typing-extensions
ulid-transform==0.9.0
urllib3<2
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


def program(name):
    """The path of a program of its environment: `python`, which can import Home Assistant, or `hass`, its core."""
    return _folder() / "bin" / name


def ensure(installer):
    """Returns True if there was something to do. Raises SetupError."""
    if sys.version_info[:2] not in PYTHONS:
        raise SetupError("this Home Assistant needs CPython 3.11 or 3.12: make PYTHON=python3.11 test-home-assistant")
    made = environment.ensure(_folder(), LOCK)
    if made:
        say("Home Assistant takes some 620 MB in the cache")
    return made
