"""A program of one's own keeps its network over an outage, with either client: on the unix board, on virtual time."""

import pytest

import board
from codes import CONNECTING, NO_AP, ONLINE
from connectivity import Connectivity
from host_tests.clients import Maker, no_network
from host_tests.lib.either import AsyncMaker

OUTAGE_S = 600


class AccessPoint:
    """The network of the unix board is that of this access point, which is `on` or not. A join takes 2 s."""

    def __init__(self, clock, monkeypatch):
        self.clock, self.on, self.joined, self._joined_at = clock, True, [], None
        network = board.network()
        monkeypatch.setattr(network, "status", self.status, raising=False)
        monkeypatch.setattr(network, "join", self.join, raising=False)

    def status(self):
        if self._joined_at is None:
            return NO_AP
        if self.clock.now < self._joined_at:
            return CONNECTING
        if not self.on:
            self._joined_at = None
        return ONLINE if self.on else NO_AP

    def join(self, timeout_ms, ssid, key):
        self.joined.append((ssid, key))
        self._joined_at = self.clock.now + 2
        return CONNECTING


@pytest.fixture(params=[Maker, AsyncMaker])
def make(request):
    maker = request.param()
    yield maker
    maker.close()


def test_it_is_kept_over_an_outage(virtual, make, monkeypatch):
    """What was published meanwhile arrives within seconds of its end: no pause has grown."""
    ap = AccessPoint(virtual.clock, monkeypatch)
    client = make(virtual.port, backoff_ms=(1_000, 3_600_000), keepalive=60)
    connectivity = Connectivity(board.network(), "home", "secret")
    arrived = []

    def run(seconds):
        end = virtual.clock.now + seconds
        while virtual.clock.now < end:
            connectivity.keep(client)
            client.run_for(1_000)

    def script(b):
        b.welcome()
        b.take(payload=b"before")
        b.until(lambda: not ap.on)
        b.cut()
        b.welcome(1)
        b.take(payload=b"meanwhile")
        arrived.append(b.clock.now)

    with virtual.play(script):
        client.publish("t", b"before", 1)
        run(30)
        assert ap.joined == [("home", "secret")]
        assert client.connected and not client.pending
        ap.on = False
        with no_network() as asked:
            run(OUTAGE_S)
        assert len(asked) <= 1 and not client.connected  # no attempt without a network
        assert OUTAGE_S / 20 < len(ap.joined) < OUTAGE_S / 10
        client.publish("t", b"meanwhile", 1)
        ap.on = True
        back = virtual.clock.now
        run(25)
        assert arrived and arrived[0] - back < 20
        assert client.connected and not client.pending
