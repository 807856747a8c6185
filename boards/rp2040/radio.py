# The Wi-Fi of a Pico W.

import network

from codes import CONNECTING, FAILED, IDLE, NO_AP, ONLINE, WRONG_KEY
from wifi import Wifi

_FILE = "/access-point"  # the registers that survive a reset have no space for it


class Radio(Wifi):
    def word(self, code):
        if code == 3:
            return ONLINE
        if code in (1, 2):  # joining; has no address yet
            return CONNECTING
        if code == 0:
            return IDLE
        if code == -2:
            return NO_AP
        return WRONG_KEY if code == -3 else FAILED

    def joined(self):
        return self.nic.status() == 2

    def connect(self, bssid, channel):
        # ifconfig() of MicroPython 1.26 leaves open of which kind the name server's address is: it accepts no answer.
        ipconfig = getattr(network, "ipconfig", None)  # older versions have none
        if self.address and ipconfig:
            ipconfig(dns=self.address[3])
        more = {"bssid": bssid, "channel": channel} if bssid else {}
        if self.security:  # only "wpa3": MicroPython before 1.25 refuses its code
            more["security"] = 0x1000004
        self.nic.connect(self.ssid, self.key, **more)

    def kept(self):
        try:
            with open(_FILE, "rb") as f:
                return (f.read() + bytes(9))[:9]
        except OSError:
            return bytes(9)

    def keep(self, data):
        try:
            with open(_FILE, "wb") as f:  # whole or not at all: littlefs
                f.write(data)
        except OSError:
            pass  # the flash is full: the next join looks on all channels

    def off(self, ms=0):
        Wifi.off(self, ms)
        self.nic.deinit()  # the Wi-Fi chip runs since its address was read
