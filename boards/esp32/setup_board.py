# The access point of a board that is set up; see boards/README.md.

import sys

import network

from setup_wifi import DNS_PORT, HTTP_PORT, address, available, join, joined, scan  # noqa: F401

_CHIP = getattr(sys.implementation, "_machine", "").split("with ")[-1].replace("-", "")[:7]
# SDA and SCL of I2C, and 1-Wire, where most boards with the chip have them.
BUSES = (6, 7, 4) if _CHIP == "ESP32C6" else (8, 9, 4) if _CHIP[5:6] in ("S", "C") else (21, 22, 4)
CONNECTIONS = 6  # of the 10 of lwIP: one is served, one is the broker's, two are listeners


def open_access_point(name, key=None):
    ap = network.WLAN(network.AP_IF)
    if key:
        how = {"authmode": network.AUTH_WPA2_PSK, "key": key}
    else:
        how = {"authmode": network.AUTH_OPEN}
    ap.active(True)  # first: an interface that is off takes no settings
    ap.config(ssid=name, **how)
    return ap.ifconfig()[0]
