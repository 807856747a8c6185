# Keeps the network of a board: for programs of one's own, and for the firmware of a device that stays awake.

from codes import CONNECTING, ONLINE
from inflight.compat import const, ticks_add, ticks_diff, ticks_ms

_PAUSE_MS = const(15_000)  # between two attempts to join
_RESCUE_MS = const(300_000)  # without a connection to the broker: off and on, since a radio can hang unnoticed


class Connectivity:
    """Keeps `network`, which board.network() returned, joined to the Wi-Fi network `ssid` with the key `key`; with
    Ethernet both are None."""

    def __init__(self, network, ssid=None, key=None):
        self._network = network
        self._ssid = ssid
        self._key = key
        self._join_at = self._connected_at = ticks_ms()

    def keep(self, client):
        """Joins the network, joins it again 15 s after an attempt that failed, and at once when it is lost. After each
        5 minutes in which `client` (a Client or an AsyncClient) had no connection the network is switched off, and
        joined with the next call. client.online tells the client whether there is a network. To be called once a
        second or so: between two calls of run_for(), or by a task. It does not wait for the network: it takes
        milliseconds, or 1.5 s if it joins. Returns the network's status, a word of codes. Raises no OSError."""
        now = ticks_ms()
        network = self._network
        status = network.status()
        if client.connected:
            self._connected_at = now
        if ticks_diff(now, self._connected_at) >= _RESCUE_MS:
            self._connected_at = self._join_at = now
            network.off()
            status = network.status()
        elif status == ONLINE:
            self._join_at = now  # due as soon as it goes
        elif status != CONNECTING and ticks_diff(now, self._join_at) >= 0:
            self._join_at = ticks_add(now, _PAUSE_MS)
            status = network.join(0, self._ssid, self._key)
        client.online = status == ONLINE
        return status
