"""The radio of a board that is set up, with a fake of each port."""

from codes import CONNECTING, NO_AP, ONLINE, WRONG_KEY
from harness import eq
from ports import AccessPoint
from ports_esp32 import Esp32
from ports_rp2040 import Rp2040

RUNTIMES = "cpython micropython-x86"
CHIPS = (Esp32, Rp2040)


def made(new, *air):
    """A chip, and its module setup_board."""
    chip = new(*air)
    import setup_board

    return chip, setup_board


class RawName:
    """The name of a network that is no text."""

    def encode(self):
        return b"\xff\xfe"


def test_the_access_point_is_open_and_has_the_name():
    """It has a key if one is given."""
    for new, name, wpa2 in ((Esp32, "authmode", 3), (Rp2040, "security", 0x400004)):
        chip, radio = made(new)
        eq(radio.open_access_point("inflight-123456"), "192.168.4.1")
        eq((chip.own.air["ssid"], chip.own.air[name]), ("inflight-123456", 0))
        eq((radio.HTTP_PORT, radio.DNS_PORT, radio.available()), (80, 53, True))
        chip, radio = made(new)
        eq(radio.open_access_point("inflight-123456", "the-set-up-code"), "192.168.4.1")
        eq((chip.own.air["ssid"], chip.own.air[name]), ("inflight-123456", wpa2))
        eq(chip.own.air["key"], "the-set-up-code")


def test_networks_are_listed_once_by_signal():
    """The strongest of many: a neighbour can announce hundreds, which would fill the RAM."""
    for new in CHIPS:
        air = [
            AccessPoint("attic", rssi=-80),
            AccessPoint("open", None, rssi=-70),
            AccessPoint("attic", bssid=b"\2\0\0\0\0\2", rssi=-60),
            AccessPoint("", rssi=-10),  # hidden
            AccessPoint(RawName(), rssi=-20),
        ]
        eq(made(new, *air)[1].scan(), [("attic", -60, True), ("open", -70, False)])
        air = [AccessPoint("network-%d" % n, rssi=-30 - n * 7 % 60) for n in range(600)]
        found = made(new, *air)[1].scan()
        eq([rssi for _, rssi, _ in found], [-30] * 10 + [-31] * 10 + [-32] * 10 + [-33] * 10)
    chip, radio = made(Esp32, AccessPoint())
    chip.wlan.broken = True  # a busy driver
    eq(radio.scan(), [])


def test_it_joins_while_its_access_point_stays():
    for new in CHIPS:
        chip, radio = made(new, AccessPoint())
        radio.scan()
        radio.open_access_point("inflight-123456")
        for ssid, key, word in (
            ("attic", "wrong-key", WRONG_KEY),
            ("x", "some-key", NO_AP),
            ("attic", "secret-key", ONLINE),
        ):
            radio.join(ssid, key)
            found = radio.joined()
            while found == CONNECTING:
                chip.clock.sleep_ms(50)
                found = radio.joined()
            eq((ssid, found), (ssid, word))
            eq(radio.address(), "192.168.4.2" if word == ONLINE else None)
            assert chip.own.up
