"""Ethernet by configuration, with fakes of network.LAN (ESP32) and network.WIZNET5K (RP2)."""

from codes import CONNECTING, FAILED, IDLE, NO_ADDRESS, NO_CABLE, ONLINE
from harness import eq, raises
from network_fields import check_network
from ports import Module, outcome, stops
from ports_esp32 import Esp32
from ports_rp2040 import Rp2040

RUNTIMES = "cpython micropython-x86"

LAN8720 = {"driver": "lan8720", "mdc": 23, "mdio": 18, "power": 12, "phy_addr": 1, "ref_clk": 17, "ref_clk_mode": "out"}
W5500 = {"driver": "w5500", "spi": 1, "sck": 10, "mosi": 11, "miso": 12, "cs": 13, "int": 21, "reset": 20}
CHIPS = ((Esp32, LAN8720), (Esp32, W5500), (Rp2040, W5500))
ADDRESS = ["192.168.1.20", "255.255.255.0", "192.168.1.1", "192.168.1.1"]


class Nic:
    """A driver of the port. `made`: its arguments. `cable`, `server`: there is one, of the latter DHCP."""

    def __init__(self, chip, made):
        self.chip, self.made = chip, made
        self.cable = self.server = True
        self.broken = self.up = False
        self.at = self.static = None

    def active(self, on=None):
        if self.broken:
            raise OSError("ethernet enable failed")
        if on is None:
            return self.up
        if on and self.up:
            raise OSError("ethernet enable failed")  # an ESP32 refuses to start it twice
        self.chip.did.append("active" if on else "inactive")
        self.up = on
        self.at = self.chip.clock.now

    def isconnected(self):
        waited = self.up and self.chip.clock.now - self.at >= 3_000
        return self.cable and waited and (self.server or self.static is not None)

    def status(self):
        if hasattr(self.chip.network, "ETH_GOT_IP"):
            return 5 if self.isconnected() else 3 if self.cable else 4
        return 2 if self.cable else 0

    def ifconfig(self, address=None):
        if address is None:
            return ("192.168.1.7", "255.255.255.0", "192.168.1.1", "192.168.1.1")
        self.static = address


def wired(new, fields, **more):
    """A chip with a cable, whose network is set up."""
    chip = new()
    machine = __import__("machine")
    machine.Pin = Pin
    machine.SPI = lambda number, **pins: ("spi", number, pins)
    made = []
    network = chip.network

    def make(*args, **names):
        made.append(Nic(chip, (args, names)))
        return made[-1]

    if new is Esp32:
        network.LAN = make
        network.PHY_LAN8720, network.PHY_W5500 = "LAN8720", "W5500"
        network.ETH_CONNECTED, network.ETH_GOT_IP = 3, 5
    else:
        network.WIZNET5K = make
    given = Module(hostname=None)
    check_network(dict(network=fields, **more), given, ValueError)
    chip.net = chip.board.network(given.network)
    chip.net.setup(given)
    chip.nic = made[0]
    return chip


class Pin:
    IN, OUT = "in", "out"

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return self.number == other.number


def test_the_driver_gets_its_pins():
    nic = wired(Esp32, LAN8720).nic
    pins = {name: Pin(LAN8720[name]) for name in ("mdc", "mdio", "power", "ref_clk")}
    eq(nic.made, ((), dict(pins, phy_type="LAN8720", phy_addr=1, ref_clk_mode="out")))
    spi = ("spi", 1, dict(baudrate=20_000_000, sck=Pin(10), mosi=Pin(11), miso=Pin(12)))
    nic = wired(Esp32, W5500).nic
    pins = {"cs": Pin(13), "int": Pin(21), "reset": Pin(20)}
    eq(nic.made, ((), dict(pins, phy_type="W5500", phy_addr=0, spi=spi)))
    nic = wired(Rp2040, W5500).nic
    eq(nic.made, ((spi, Pin(13), Pin(20), Pin(21)), {}))


def test_it_gets_an_address():
    for new, fields in CHIPS:
        chip = wired(new, fields)
        eq(chip.net.status(), IDLE)
        eq(chip.net.join(0), CONNECTING)
        eq((outcome(chip), chip.net.rssi(), chip.network.name), (ONLINE, None, "inflight-123456"))
        chip = wired(new, dict(fields, ip=ADDRESS), hostname="attic-1")
        eq(chip.net.join(10_000), ONLINE)
        eq((chip.nic.static, chip.network.name), (tuple(ADDRESS), "attic-1"))


def test_what_is_missing_is_told():
    """A cable that is pulled and put back, too."""
    for new, fields in CHIPS:
        chip = wired(new, fields)
        chip.nic.cable = False
        eq(chip.net.join(30_000), NO_CABLE)
        chip.nic.cable, chip.nic.server = True, False
        eq(chip.net.join(30_000), NO_ADDRESS)
        chip.nic.server = True
        eq(chip.net.status(), ONLINE)  # it connects by itself
        chip.nic.broken = True
        eq(chip.net.join(30_000), FAILED)
        chip.nic.broken = False
        eq(chip.net.join(30_000), ONLINE)
        chip.nic.cable = False
        eq(chip.net.status(), CONNECTING)
        chip.clock.sleep_ms(25_000)
        eq(chip.net.status(), NO_CABLE)
        chip.nic.cable = True
        eq(chip.net.status(), ONLINE)


def test_a_rescue_starts_it_again():
    """In deep sleep it is off."""
    for new, fields in CHIPS:
        chip = wired(new, fields)
        eq(chip.net.join(10_000), ONLINE)
        del chip.did[:]
        chip.net.off()
        eq(chip.net.status(), IDLE)
        eq(chip.net.join(10_000), ONLINE)
        eq(chip.did, ["inactive", "active"])
        assert "inactive" in stops(chip, chip.board.sleep, 60_000, True)


def test_what_is_wrong_is_told():
    """A firmware without the driver; a Pico without the reset pin."""
    for new, fields in ((Esp32, LAN8720), (Rp2040, W5500)):
        chip = new()
        machine = __import__("machine")
        machine.Pin, machine.SPI = Pin, lambda number, **pins: None
        given = Module(hostname=None, wifi_ssid=None)
        check_network({"network": fields}, given, ValueError)
        net = chip.board.network(fields)
        assert "has no driver for " + fields["driver"] in str(raises(ValueError, net.setup, given))
        eq(net.join(1_000), FAILED)
    fields = {name: W5500[name] for name in W5500 if name != "reset"}
    assert "RSTn" in str(raises(ValueError, wired, Rp2040, fields))
