"""A board's network is kept: joined, joined again, and restarted, with a fake of each port."""

import sys

from codes import ONLINE
from harness import eq
from ports import AccessPoint, dials, vanish
from ports_esp32 import Esp32
from ports_rp2040 import Rp2040

RUNTIMES = "cpython micropython-x86"
CHIPS = (Esp32, Rp2040)
KEY = "secret-key"


class Client:
    """A client that connects as soon as it may, if there is a broker."""

    def __init__(self, broker=True):
        self.broker = broker
        self.connected = False
        self.online = True

    def run(self):
        self.connected = self.online and self.broker


class Kept:
    """The network of a chip, kept while a client runs: seconds()."""

    def __init__(self, chip, broker=True):
        self.chip = chip
        self.client = Client(broker)
        module = sys.modules.get("connectivity") or __import__("connectivity")
        self.connectivity = module.Connectivity(chip.board.network(), "attic", KEY)

    def seconds(self, n):
        """Time passes. Returns the seconds in which the client was online."""
        online = 0
        for _ in range(n):
            before = self.chip.clock.now
            self.status = self.connectivity.keep(self.client)
            assert self.chip.clock.now - before <= 1_500
            self.client.run()
            online += self.client.online
            self.chip.clock.sleep_ms(1_000)
        return online

    def joined(self):
        """How often it has tried to join since the last call."""
        n = len(dials(self.chip))
        del self.chip.did[:]
        return n


def test_after_an_outage_it_is_joined_again():
    for new in CHIPS:
        chip = new(AccessPoint())
        kept = Kept(chip)
        kept.seconds(60)
        eq(kept.joined(), 1)
        ap = chip.air[0]
        vanish(chip, ap)
        kept.seconds(10)
        eq(kept.seconds(120), 0)
        eq((kept.client.online, kept.client.connected), (False, False))
        assert 6 <= kept.joined() <= 9  # each 15 s
        chip.air.append(ap)
        kept.seconds(20)
        eq((kept.status, kept.client.connected), (ONLINE, True))
        assert kept.seconds(600) == 600 and kept.joined() <= 2


def test_a_radio_that_only_says_that_it_is_online_is_restarted_each_five_minutes():
    """From the start, or from the last connection on."""
    for new in CHIPS:
        kept = Kept(new(AccessPoint()), broker=False)
        kept.seconds(295)
        assert "inactive" not in kept.chip.did and kept.joined() == 1
        kept.seconds(10)
        eq((kept.chip.did.count("inactive"), kept.joined()), (1, 1))
        kept.seconds(600)
        eq((kept.chip.did.count("inactive"), kept.joined(), kept.status), (2, 2, ONLINE))
        kept.client.broker = True
        kept.seconds(3_600)
        eq(kept.chip.did.count("inactive"), 0)
        kept.client.broker = False
        kept.seconds(290)
        assert "inactive" not in kept.chip.did
        kept.seconds(20)
        assert "inactive" in kept.chip.did
