"""A sensor on the emulated board: the application as it is deployed, and its configuration."""

import functools
import json

from inflight_tools.boards.build.bundle import files
from inflight_tools.boards.images import variants
from tools.emulators.pico_w import radio
from tools.emulators.pico_w.gateway import HOST

BOARD = "rp2040"
TLS_HOST = "broker.test"  # any name is this machine
application = functools.partial(files, BOARD, processor=variants.processor("pico_w"))  # as a cable brings it


def config(port, device, **fields):
    """The configuration of `device`, for the broker at `port` of this machine, as bytes: `batch` 1, so that each
    reading is a message, as judges count them."""
    given = {"host": HOST, "port": port, "device": device, "wifi_ssid": radio.SSID, "wifi_key": radio.KEY}
    return json.dumps(given | {"batch": 1} | fields).encode()
