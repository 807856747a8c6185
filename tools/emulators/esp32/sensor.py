"""A sensor on the emulated board: the application as it is deployed, and its configuration."""

import json

from tools.emulators.esp32.board import HOST, SSID

BOARD = "esp32"
TLS_HOST = HOST  # names are not resolved


def config(port, device, **fields):
    """The configuration of `device`, for the broker at `port` of this machine, as bytes: `batch` 1, so that each
    reading is a message, as judges count them."""
    given = {"host": HOST, "port": port, "device": device, "wifi_ssid": SSID, "ntp": HOST}
    return json.dumps(given | {"batch": 1} | fields).encode()
