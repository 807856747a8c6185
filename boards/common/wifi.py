# Connects a board to a Wi-Fi network. The peculiarities of a port are in its folder, in a subclass: radio.

import network

from codes import CONNECTING, FAILED, IDLE, NO_ADDRESS, ONLINE, WRONG_KEY
from inflight.compat import const, sleep_ms, ticks_diff, ticks_ms

_LIMIT_MS = const(20_000)  # an attempt without a result after this time has failed
_STALE_MS = const(5_000)  # for so long a port may report the result of the previous attempt
_LEAVE_MS = const(500)
_PAUSE_MS = const(1_000)  # a port that connects right after it disconnected may fail, for ever
_POLL_MS = const(20)
_DIRECTED_MS = const(4_000)  # time-out for the access point of the last wake, before others are tried
_CHANNEL = const(6)  # of what is kept of that: its address, its channel, 2 bytes that identify its network
_NETWORK = const(7)
_KEPT = const(9)


def _digest(ssid):
    from binascii import crc32

    return (crc32(ssid.encode()) & 0xFFFF).to_bytes(2, "little")


class Wifi:
    """The Wi-Fi of a board whose identity is `name`. A port adds word(code): the code of codes.py for a status code of
    the port, connect(bssid, channel): starts to connect to `ssid` with `key`, to that access point unless it is None,
    joined(): True if an access point has accepted the station, with an address or not, kept(): 9 bytes, what keep(9
    bytes) kept last, over a sleep at least."""

    ssid = key = security = None
    # What setup() changes.
    networks = ()  # others than that of join(): (ssid, key, security)
    default_security = address = txpower = None
    power_save = False
    _rest = ()  # networks that are still to be tried
    _verdict = None  # why the last attempt failed
    _waiting = False  # for the result of an attempt
    _directed = False  # which looks for the access point of the last wake
    _before = None  # status code when the attempt began
    _began = _dialled = 0

    def __init__(self, name, fields=None):
        self.nic = network.WLAN(network.STA_IF)
        self.name = "inflight-" + name[-6:]
        network.hostname(self.name)

    def setup(self, config):
        """Settings for the next join(): hostname and the fields wifi_* of the configuration. Raises ValueError."""
        network.hostname(config.hostname or self.name)
        self.address = tuple(config.wifi_ip) if config.wifi_ip else None
        self.networks = [(n["ssid"], n.get("key"), n.get("security")) for n in config.wifi_networks or ()]
        self.default_security = config.wifi_security
        self.txpower = config.wifi_txpower
        self.power_save = config.wifi_power_save
        if config.wifi_country:
            network.country(config.wifi_country)
            self.nic.active(False)  # takes effect when the radio starts

    def join(self, timeout_ms, ssid, key):
        """Starts to connect, and waits for the result for at most `timeout_ms`. Returns status()."""
        self._rest = [(ssid, key, self.default_security)]
        if self.networks:
            self._rest = self._by_signal(self._rest + self.networks)
        self._limit = timeout_ms // len(self._rest) if timeout_ms > 0 else _LIMIT_MS
        self._try_next()
        word = self.status()
        while word == CONNECTING and timeout_ms > 0:
            sleep_ms(_POLL_MS)
            word = self.status()
        return word

    def _by_signal(self, wanted):
        # `wanted`, a list of (ssid, key, security), with the strongest network first. Networks that a scan does not
        # find come last, in their order: hidden ones are among them. Takes some seconds.
        best = {ssid.encode(): -200 for ssid, _, _ in wanted}
        try:
            self.nic.active(True)
            self.nic.disconnect()
            for ap in self.nic.scan():
                if ap[0] in best:
                    best[ap[0]] = max(ap[3], best[ap[0]])
        except (OSError, MemoryError):
            pass  # the driver is busy, or a neighbour announces hundreds
        found = [(-best[wanted[i][0].encode()], i) for i in range(len(wanted))]
        return [wanted[i] for _, i in sorted(found)]

    def _try_next(self):
        self.ssid, self.key, self.security = self._rest.pop(0)
        self._began = ticks_ms()
        self._dial()

    def _dial(self):
        nic = self.nic
        self._waiting = True
        try:
            nic.active(True)
            self._before = nic.status()
            self._leave_network()  # a driver that is connecting refuses another attempt
            self._dialled = ticks_ms()
            # With power saving an answer waits for the next beacon, and the Pico W loses some packets.
            nic.config(pm=network.WLAN.PM_PERFORMANCE if self.power_save else network.WLAN.PM_NONE)
            if self.txpower:
                nic.config(txpower=self.txpower)
            if self.address:
                nic.ifconfig(self.address)
            kept = self.kept()
            channel = kept[_CHANNEL]
            self._directed = channel > 0 and not self.networks and kept[_NETWORK:] == _digest(self.ssid)
            self.connect(kept[:_CHANNEL] if self._directed else None, channel)
        except (OSError, RuntimeError, ValueError) as e:
            self._give_up(WRONG_KEY if "Password" in str(e) else FAILED)

    def _leave_network(self):
        # The driver may still report the old connection.
        self.nic.disconnect()
        start = ticks_ms()
        while self.nic.isconnected() and ticks_diff(ticks_ms(), start) < _LEAVE_MS:
            sleep_ms(_POLL_MS)
        if self.word(self._before) != IDLE:
            sleep_ms(_PAUSE_MS)

    def _give_up(self, verdict):
        self._waiting = False
        self._verdict = verdict

    def status(self):
        """Returns a code of codes.py. A failure stays until the next join(), unless the port connects after all."""
        word = self._look()
        if self._directed and word != ONLINE:
            waited = ticks_diff(ticks_ms(), self._dialled)
            if word != CONNECTING or (waited >= _DIRECTED_MS and not self.joined()):
                # That access point is gone, or has changed: use any other.
                self.keep(bytes(_KEPT))
                self._dial()
                word = CONNECTING
        return word

    def _look(self):
        code = self.nic.status()
        word = self.word(code)
        if word == ONLINE:
            self._give_up(None)
        elif self._waiting:
            word = self._outcome(code, word)
            if word != CONNECTING:
                self._give_up(word)
        elif self._verdict:
            word = self._verdict
        elif word == CONNECTING:  # the driver has lost its address, or reconnects
            self._limit = _LIMIT_MS
            self._began = ticks_ms()
            self._waiting = True
        if self._rest and word not in (ONLINE, CONNECTING):
            self._try_next()
            word = CONNECTING
        return word

    def _outcome(self, code, word):
        now = ticks_ms()
        if word == IDLE or (code == self._before and ticks_diff(now, self._dialled) < _STALE_MS):
            word = CONNECTING
        if word == CONNECTING and ticks_diff(now, self._began) >= self._limit:
            return NO_ADDRESS if self.joined() else FAILED
        return word

    def rssi(self):
        """dBm, None if it is not connected."""
        try:
            return self.nic.status("rssi") if self.nic.isconnected() else None
        except OSError:  # the connection was lost meanwhile
            return None

    def off(self, ms=0):
        """Disconnects and stops the radio; the board sleeps for `ms` then."""
        if ms:
            self._note()
        self._rest = ()
        for stop in (self.nic.disconnect, lambda: self.nic.active(False)):
            try:
                stop()
            except OSError:
                pass  # it was off, or hangs

    def _note(self):
        # Keeps the access point, so that the next start connects faster: it need not look on all channels. Its address
        # is only known from a scan, so this is done once, and only when it is useful. Of a hidden network no scan tells
        # it: then the channel that is kept is 0.
        if self.networks or self.status() != ONLINE or self.kept()[_NETWORK:] == _digest(self.ssid):
            return
        try:
            channel = self.nic.config("channel")
            found = [ap for ap in self.nic.scan() if ap[0] == self.ssid.encode() and ap[2] == channel]
        except OSError:
            return
        best = max(found, key=lambda ap: ap[3])[1] + bytes([channel]) if found else bytes(_NETWORK)
        self.keep(best + _digest(self.ssid))
