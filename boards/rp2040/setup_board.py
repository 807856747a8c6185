# The access point of a board that is set up; see boards/README.md.

import network

from setup_wifi import DNS_PORT, HTTP_PORT, address, available, join, joined, scan  # noqa: F401

_WPA2 = 0x400004  # AES; MicroPython's constant of that has no name in 1.22
BUSES = 4, 5, 22  # SDA and SCL of I2C, 1-Wire
CONNECTIONS = 3  # of the 5 of lwIP: one is served, one is the broker's


def open_access_point(name, key=None):
    ap = network.WLAN(network.AP_IF)
    how = {"security": _WPA2, "key": key} if key else {"security": 0}
    ap.config(ssid=name, **how)  # first: they take effect when it starts
    ap.active(True)
    return ap.ifconfig()[0]
