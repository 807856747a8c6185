# What the set-up of a board with Wi-Fi needs, apart from what is peculiar to a port: see setup_board.

import network

import board
from codes import ONLINE
from inflight.compat import const

HTTP_PORT = 80
DNS_PORT = 53
_MOST = const(40)  # networks


def available():
    return True


def scan():
    wlan = network.WLAN(network.STA_IF)
    best = {}
    try:
        wlan.active(True)
        for ap in wlan.scan():
            if ap[0] and ap[3] > best.get(ap[0], (-200,))[0]:
                best[ap[0]] = ap[3], ap[4] != 0
                if len(best) > _MOST:
                    del best[min(best, key=lambda ssid: best[ssid][0])]
    except OSError:
        pass  # the driver is busy: the name can be typed
    found = []
    for rssi, locked, ssid in sorted([(-best[ssid][0], best[ssid][1], ssid) for ssid in best]):
        try:
            found.append((ssid.decode(), -rssi, locked))
        except UnicodeError:
            pass  # a configuration cannot name it
    return found


def join(ssid, key):
    board.network().join(0, ssid, key)


def joined():
    return board.network().status()


def address():
    return network.WLAN(network.STA_IF).ifconfig()[0] if joined() == ONLINE else None
