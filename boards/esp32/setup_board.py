# The access point of a board that is set up; see boards/README.md.

import network

from setup_wifi import DNS_PORT, HTTP_PORT, address, available, join, joined, scan  # noqa: F401

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
