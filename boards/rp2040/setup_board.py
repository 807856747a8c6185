# The access point of a board that is set up; see boards/README.md.

import network

from setup_wifi import DNS_PORT, HTTP_PORT, address, available, join, joined, scan  # noqa: F401

CONNECTIONS = 3  # of the 5 of lwIP: one is served, one is the broker's


def open_access_point(name):
    ap = network.WLAN(network.AP_IF)
    ap.config(ssid=name, security=0)  # first: they take effect when it starts
    ap.active(True)
    return ap.ifconfig()[0]
