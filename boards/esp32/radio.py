# The Wi-Fi of an ESP32.

from power import keep, kept

from codes import CONNECTING, FAILED, IDLE, NO_AP, ONLINE, WRONG_KEY
from inflight.compat import const, ticks_diff, ticks_ms
from wifi import Wifi

_DIRECTED_MS = const(4_000)  # time-out for the remembered access point, before others are tried
# Places in what is kept: the access point's address, 6 bytes, and its channel; 2 bytes that identify its network.
_AP = const(20)
_NETWORK = const(27)
_END = const(29)


def _digest(ssid):
    from binascii import crc32

    return (crc32(ssid.encode()) & 0xFFFF).to_bytes(2, "little")


class Radio(Wifi):
    _directed = False

    def word(self, code):
        # Codes below 1000 are the driver's (wifi_err_reason_t). MicroPython names only some, depending on its version.
        if code == 1010:
            return ONLINE
        if code == 1001:
            return CONNECTING
        if code in (1000, 8):  # 8: it disconnected by itself
            return IDLE
        if code in (200, 201, 210, 211, 212):  # beacons lost; no access point, or no suitable one
            return NO_AP
        if code in (14, 15, 23, 202, 204, 205):  # handshakes that failed or timed out
            return WRONG_KEY
        return FAILED

    def joined(self):
        try:
            self.nic.status("rssi")
            return True
        except OSError:
            return False

    def connect(self):
        # The driver would retry without end, and hide the reason: the firmware retries instead.
        self.nic.config(reconnects=0)
        memory = kept()
        channel = memory[_AP + 6]
        self._directed = channel > 0 and not self.networks and memory[_NETWORK:_END] == _digest(self.ssid)
        if not self._directed:
            self.nic.connect(self.ssid, self.key)
            return
        bssid = bytes(memory[_AP : _AP + 6])
        try:
            self.nic.connect(self.ssid, self.key, bssid=bssid, channel=channel)  # type: ignore[call-arg]
        except TypeError:  # stock firmware takes no channel
            self.nic.connect(self.ssid, self.key, bssid=bssid)

    def status(self):
        word = Wifi.status(self)
        if self._directed and word != ONLINE:
            waited = ticks_diff(ticks_ms(), self._dialled)
            if word != CONNECTING or (waited >= _DIRECTED_MS and not self.joined()):
                # That access point is gone, or has changed: use any other.
                keep(_AP, bytes(9))
                self._dial()
                word = CONNECTING
        return word

    def off(self, ms=0):
        if ms:
            self._note()
        Wifi.off(self)

    def _note(self):
        # Remembers the access point, so that the next start connects faster. Its address is only known from a scan, so
        # this is done once, and only when it is useful.
        if self.status() != ONLINE or self._directed:
            return
        channel = self.nic.config("channel")
        try:
            found = [ap for ap in self.nic.scan() if ap[0] == self.ssid.encode() and ap[2] == channel]
        except OSError:
            return
        if found:
            best = max(found, key=lambda ap: ap[3])
            keep(_AP, best[1] + bytes([channel]) + _digest(self.ssid))
