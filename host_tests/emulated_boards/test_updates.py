"""A board fetches releases over Wi-Fi, switches to them and tries them, while its power is cut: one whole application
always starts, nothing that publish() accepted is lost, and the outcome of each release is the right one.

A life takes minutes. So what a power cut would leave is judged at every other operation of the flash, too: by the
flash, and by starts with it, on this machine and, where that is quick, of the emulated board."""

import os
from collections import Counter

import pytest

from host_tests.emulated_boards.chain import Chain, sent
from host_tests.emulated_boards.fleet import BROKEN, GOOD, Fleet, Outcomes
from host_tests.emulated_boards.judge import judge
from host_tests.emulated_boards.started import cut_each
from inflight import __version__
from inflight_tools.broker import Broker
from inflight_tools.update.server import Server
from tools.peers.subscriber import Subscriber

pytestmark = pytest.mark.timeout(6 * 3600)
LIVES = int(os.environ.get("LIVES", "3"))  # that a power cut ends, for each release; the last ones have no cut
CUTS = int(os.environ.get("CUTS", "200"))  # operations at which it would go, and after which an application is started
RELEASES = ((1, GOOD), (2, GOOD), (3, BROKEN))


def test_updates(emulated, broker, record_property):
    fleet = Fleet(emulated.SENSOR, broker.port)
    brought = fleet.files()
    place = Broker("127.0.0.1", broker.port, "inflight", None, None, None, None)
    with Server(place) as server, Subscriber(broker.port, "inflight/box/#", "judge") as subscriber:
        outcomes = Outcomes(server)
        chain = Chain(emulated, brought, outcomes)
        for number, wanted in RELEASES:
            server.announce("box", fleet.release(number, wanted))
            chain.update(number, LIVES)
            assert outcomes.of(number) == wanted, (number, outcomes.told)
        told = [one.fields.get("firmware", "") for one in subscriber.find("inflight/box/status")]
        versions = Counter(version.removeprefix(__version__) for version in told)
        assert set(versions) >= {"", "+1", "+2"} and "+3" not in versions, versions
        chain.deliver(subscriber)
        judge(chain.cuts, lambda: sent(subscriber), record_property)
        delivered = {one.fields["seq"] for one in sent(subscriber) if "seq" in one.fields}
    judged, started = 0, Counter()
    for seed, history in enumerate(chain.histories):
        share = (CUTS + seed) // len(chain.histories)
        found = cut_each(emulated, history, seed, share, brought, delivered)
        judged, started = judged + found[0], started + found[1]
    record_property("power cuts that were judged by the flash", judged)
    record_property("of these after which the application was started", f"{sum(started.values())}: {dict(started)}")
