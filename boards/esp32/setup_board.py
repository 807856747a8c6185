# The access point of a board that is set up; see boards/README.md.

import network

from setup_wifi import DNS_PORT, HTTP_PORT, address, available, join, joined, scan  # noqa: F401

CONNECTIONS = 6  # of the 10 of lwIP: one is served, one is the broker's, two are listeners


def open_access_point(name):
    ap = network.WLAN(network.AP_IF)
    ap.active(True)  # first: an interface that is off takes no settings
    ap.config(ssid=name, authmode=network.AUTH_OPEN)
    return ap.ifconfig()[0]
