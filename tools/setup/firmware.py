"""MicroPython's firmware images for boards, for tests of images and of an emulated board."""

import os

from inflight_tools.boards.images.firmware import obtain
from inflight_tools.boards.images.variants import variants
from inflight_tools.cache import find_firmware
from tools.setup.common import say

TIMEOUT_S = 3  # for machines without a network
ADVICE = "name its folder in INFLIGHT_FIRMWARE"


def ensure(_installer):
    """Returns True if there was something to do. A missing image is no failure: its tests are skipped."""
    if os.environ.get("INFLIGHT_FIRMWARE"):  # the user has them
        return False
    missing = [variant for variant in variants() if not find_firmware(variant.firmware)]
    for variant in missing:
        try:
            obtain(variant, timeout_s=TIMEOUT_S, advice=ADVICE)
            say(f"fetched {variant.firmware}")
        except ValueError as e:
            say(f"firmware images are unavailable: {e}")
            break  # the next one would fail, too
    return bool(missing)
