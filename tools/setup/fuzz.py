"""The coverage-guided fuzzer, if there is a wheel for this Python."""

import platform
import sys

from tools.setup import environment
from tools.setup.common import CHECKOUT, say

LOCK = CHECKOUT / "tools/fuzz/fuzz.lock"
PYTHONS = ((3, 11), (3, 12), (3, 13))  # of its wheels; to build it needs a special compiler


def ensure(_installer):
    if sys.version_info[:2] not in PYTHONS or (sys.platform, platform.machine()) != ("linux", "x86_64"):
        this = f"Python {sys.version.split()[0]} on {platform.machine()}"
        say(f"no coverage-guided fuzzing: atheris has no wheel for {this}")
        return False
    return environment.add(LOCK)
