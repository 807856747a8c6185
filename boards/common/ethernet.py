# The network of a board with an Ethernet cable: the field `network` of the configuration. Loaded instead of Wi-Fi.

import network

from codes import CONNECTING, FAILED, IDLE, NO_ADDRESS, NO_CABLE, ONLINE
from inflight.compat import const, sleep_ms, ticks_diff, ticks_ms

_LIMIT_MS = const(20_000)  # without an address after this time, the attempt has failed
_POLL_MS = const(20)


class Ethernet:
    """The Ethernet of a board whose identity is `name`; fields: those that network_fields checked."""

    address = None  # (address, mask, gateway, name server) without DHCP
    _verdict = IDLE  # why there is no connection
    _began = 0

    def __init__(self, name, fields):
        self.name = "inflight-" + name[-6:]
        network.hostname(self.name)
        self._fields = fields
        self.nic = None

    def setup(self, config):
        """Settings for the next join(): the hostname, and `ip` of the field. Raises ValueError if this firmware has no
        driver, or refuses a pin."""
        network.hostname(config.hostname or self.name)
        self.address = self._fields.get("ip")
        self._make()

    def _make(self):
        if not self.nic:
            try:
                self.nic = (_lan8720 if self._fields["driver"] == "lan8720" else _w5500)(self._fields)
            except AttributeError:
                raise ValueError("this firmware of MicroPython has no driver for %s" % self._fields["driver"])
        return self.nic

    def join(self, timeout_ms, ssid=None, key=None):
        """Starts the interface, and waits for an address for at most `timeout_ms`. Returns status()."""
        self._began = ticks_ms()
        self._verdict = CONNECTING
        try:
            nic = self._make()
            if not nic.active():
                nic.active(True)
            if self.address:
                nic.ifconfig(tuple(self.address))
        except (OSError, ValueError):
            self._verdict = FAILED
        while self.status() == CONNECTING and ticks_diff(ticks_ms(), self._began) < timeout_ms:
            sleep_ms(_POLL_MS)
        return self.status()

    def status(self):
        """Returns a code of codes.py. The interface connects by itself when there is a cable."""
        if self._verdict in (IDLE, FAILED):
            return self._verdict
        try:
            if self.nic.isconnected():
                self._verdict = CONNECTING  # if it goes, it may come back
                self._began = ticks_ms()
                return ONLINE
            if ticks_diff(ticks_ms(), self._began) < _LIMIT_MS:
                return CONNECTING
            self._verdict = NO_ADDRESS if self._has_link() else NO_CABLE
        except OSError:
            self._verdict = FAILED
        return self._verdict

    def _has_link(self):
        status = self.nic.status()
        connected = getattr(network, "ETH_CONNECTED", None)
        # An ESP32 tells the last event; a W5500 on another chip 0 without a cable.
        return status > 0 if connected is None else status in (connected, network.ETH_GOT_IP)

    def rssi(self):
        """None: there is no radio."""

    def off(self, ms=0):
        """Stops the interface."""
        self._verdict = IDLE
        try:
            if self.nic:
                self.nic.active(False)
        except OSError:
            pass  # it was off, or hangs


def _pins(fields, *names):
    # {name: pin} of those that the configuration has.
    from machine import Pin

    return {name: Pin(fields[name]) for name in names if name in fields}


def _lan8720(fields):
    # Inside the ESP32 is the controller, outside the transceiver.
    more = _pins(fields, "mdc", "mdio", "power", "reset", "ref_clk")
    if "ref_clk_mode" in fields:
        from machine import Pin

        more["ref_clk_mode"] = Pin.OUT if fields["ref_clk_mode"] == "out" else Pin.IN
    return network.LAN(phy_type=network.PHY_LAN8720, phy_addr=fields.get("phy_addr", 0), **more)


def _w5500(fields):
    from machine import SPI

    bus = _pins(fields, "sck", "mosi", "miso")
    spi = SPI(fields.get("spi", 0), baudrate=fields.get("baudrate", 20_000_000), **bus)
    pins = _pins(fields, "cs", "int", "reset")
    if hasattr(network, "LAN"):
        return network.LAN(spi=spi, phy_type=network.PHY_W5500, phy_addr=0, **pins)
    if "reset" not in fields:
        raise ValueError("network: this board needs reset as well: the pin of the chip's RSTn")
    return network.WIZNET5K(spi, *[pins[name] for name in ("cs", "reset", "int") if name in pins])
