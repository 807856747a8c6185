"""MicroPython's firmware images for boards, which tests take apart and run on an emulated one."""

import os

from inflight_tools.boards.images import variants
from inflight_tools.boards.images.firmware import obtain
from inflight_tools.cache import find_firmware

from .common import say

PINNED = tuple(found for found in map(variants.variant, variants.NAMES) if found.sha256)
TIMEOUT_S = 3  # a machine without a network waits no longer
ADVICE = "name its folder in INFLIGHT_FIRMWARE"


def ensure(_workshop):
    """True when there was something to do. What cannot be had is no failure: its tests are skipped."""
    if os.environ.get("INFLIGHT_FIRMWARE"):  # the person keeps them
        return False
    missing = [variant for variant in PINNED if not find_firmware(variant.firmware)]
    for variant in missing:
        try:
            obtain(variant, timeout_s=TIMEOUT_S, advice=ADVICE)
            say(f"fetched {variant.firmware}")
        except ValueError as e:
            say(f"firmware images are unavailable: {e}")
            break  # the next would not come either
    return bool(missing)
