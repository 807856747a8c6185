# A stand-in for the radio of a board that is set up: the loopback is its access point, a file lists the networks.
#
#   INFLIGHT_SETUP     ports of the page and of the name server, "8080:5353"; without it there is no set-up, with
#                      the port 0 no name server
#   networks.json      in the home folder: [{"ssid": "attic", "key": "...", "rssi": -60}]

import json
import os

from board import home
from codes import CONNECTING, NO_AP, ONLINE, WRONG_KEY

BUSES = 8, 9, 4  # of a module `machine` that stands for hardware
CONNECTIONS = 8
HTTP_PORT, DNS_PORT = [int(port) for port in (os.getenv("INFLIGHT_SETUP") or "0:0").split(":")]

_outcome = None
_asked = False


def available():
    return HTTP_PORT > 0


def open_access_point(name, key=None):
    return "127.0.0.1"


def _air():
    with open(home() + "/networks.json") as f:
        return json.loads(f.read())


def scan():
    found = sorted(_air(), key=lambda network: -network["rssi"])
    return [(network["ssid"], network["rssi"], bool(network.get("key"))) for network in found[:40]]


def join(ssid, key):
    global _outcome, _asked
    keys = [network.get("key") for network in _air() if network["ssid"] == ssid]
    _outcome = NO_AP if not keys else ONLINE if keys[0] == key else WRONG_KEY
    _asked = False


def joined():
    global _asked
    if not _asked:  # a radio takes its time
        _asked = True
        return CONNECTING
    return _outcome


def address():
    return "127.0.0.2" if _outcome == ONLINE and _asked else None
