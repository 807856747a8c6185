# The Wi-Fi of an ESP32.

from power import keep, kept

from codes import CONNECTING, FAILED, IDLE, NO_AP, ONLINE, WRONG_KEY
from inflight.compat import const
from wifi import Wifi

_AP = const(28)  # place of the access point in what is kept
_END = const(37)


class Radio(Wifi):
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

    def connect(self, bssid, channel):
        # The driver would retry without end, and hide the reason: the firmware retries instead.
        self.nic.config(reconnects=0)
        if not bssid:
            self.nic.connect(self.ssid, self.key)
            return
        try:
            self.nic.connect(self.ssid, self.key, bssid=bssid, channel=channel)  # type: ignore[call-arg]
        except TypeError:  # stock firmware takes no channel
            self.nic.connect(self.ssid, self.key, bssid=bssid)

    def kept(self):
        return bytes(kept()[_AP:_END])

    def keep(self, data):
        keep(_AP, data)
