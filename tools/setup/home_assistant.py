"""Home Assistant in an environment of its own in the cache: the newest that CPython 3.11 runs, with what its core needs
for MQTT, recorder and frontend, and no more."""

import sys

from tools.setup.common import CHECKOUT, SetupError, say
from tools.setup.environment import Apart

LOCK = CHECKOUT / "tools/home_assistant/home_assistant.lock"
PYTHONS = ((3, 11), (3, 12))  # of its wheels
_APART = Apart("home-assistant", LOCK, "Home Assistant is not set up: run `make test-home-assistant`")
unavailable = _APART.unavailable
program = _APART.program  # "python", which can import Home Assistant, or "hass", its core


def ensure(_installer):
    if sys.version_info[:2] not in PYTHONS:
        raise SetupError("this Home Assistant needs CPython 3.11 or 3.12: make PYTHON=python3.11 test-home-assistant")
    made = _APART.ensure()
    if made:
        say("Home Assistant takes some 620 MB in the cache")
    return made
