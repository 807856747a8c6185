"""The Wi-Fi chip of the emulated board, with an access point that can go away."""

from rp2040py.external.cyw43 import Cyw43439
from rp2040py.external.cyw43 import bus as cyw43
from rp2040py.external.cyw43.bus import GSPIBus

from tools.emulators.pico_w.gateway import Gateway

SSID = "RP2040PY-GUEST"
KEY = "any-key-of-8"  # the access point takes each that is long enough
_NO_NETWORK = 3  # what the chip says of a join that finds no such access point
_JOIN = b"join\0"
_BSSID = 4 + 32 + 20  # where it is behind that
_AHEAD = 17  # frames that the board may send before the chip must speak again


class _Bus(GSPIBus):
    """The chip grants credit with each frame it sends to the board: up to which number the board may send. The
    emulator adds one each time, whether the board has sent or not. When it has received 128 frames more than it sent,
    that number has gone once around, and the board never sends again. Here credit follows what the board sent."""

    _sent = 0xFF
    there = True  # the access point

    @property
    def _bus_data_credit(self):
        return (self._sent + _AHEAD) & 0xFF

    @_bus_data_credit.setter
    def _bus_data_credit(self, _):
        pass

    def power_off(self):
        super().power_off()
        self._sent = 0xFF

    def _write_wlan(self, data):
        if len(data) < cyw43.SDPCM_HEADER_LEN:
            return
        self._sent = data[4]
        super()._write_wlan(data)
        # The emulator does not know a join of one access point.
        request = data[cyw43.SDPCM_HEADER_LEN :]
        name, asked = request[cyw43.IOCTL_HEADER_LEN :][: len(_JOIN)], int.from_bytes(request[:4], "little")
        if data[5] & 15 == cyw43.CONTROL_HEADER and (asked, name) == (cyw43.WLC_SET_VAR, _JOIN):
            at = cyw43.IOCTL_HEADER_LEN + len(_JOIN) + _BSSID
            self._queue_join_events(request[at : at + 6] == cyw43._FAKE_AP_BSSID)

    def _queue_join_events(self, there=True):
        if self.there and there:
            super()._queue_join_events()
        else:
            self.queue_rx_packet(self._build_async_event(cyw43.CYW43_EV_SET_SSID, _NO_NETWORK))


class Radio(Cyw43439):
    """`gateway` is the network behind the access point."""

    def __init__(self):
        super().__init__()
        self.bus: _Bus = _Bus()
        self.gateway = None

    def attach(self, rp2040):
        super().attach(rp2040)
        self.gateway = self.bus.nat_bridge = Gateway(rp2040, self.bus.queue_rx_ethernet_frame)

    def vanish(self):
        """The access point goes, and all connections with it."""
        self.bus.there = False
        self.gateway.reset()
        self.bus._queue_disassoc_events()

    def appear(self):
        """It is back: who asks may join."""
        self.bus.there = True
