"""A share of virtual devices with mosquitto, in every kind of bad network, in a process of its own."""

import pytest

from host_tests.waiting import wait_for
from tools.demo.subscriber import Subscriber
from tools.reference.oracle import Tally
from tools.soak.fleet import Share
from tools.soak.proxy import KINDS
from tools.soak.result import Row


def until(condition):
    return wait_for(condition, 90, pause_s=0.1)


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.timeout(1800)
def test_share(mosquitto):
    """Two devices of each kind, QoS 1 and 2. The broker restarts, the access points go off; nothing is lost."""
    broker = mosquitto()
    with Subscriber(broker.port) as watcher:
        share = Share(broker.port, range(2 * len(KINDS)), 0.5, seed=1)
        assert until(lambda: share.ask("accepted") >= 100)
        watcher.leave()
        broker.restart()
        watcher.join()
        share.ask("outage")
        assert until(lambda: share.ask("unsettled") == 2 * len(KINDS))
        share.ask("join")
        assert until(lambda: share.ask("accepted") >= 200)
        share.ask("clear")
        assert until(lambda: share.ask("unsettled") == 0)
        told, _, resident = share.end()
        seen = watcher.counts()
    assert len(told) == 2 * len(KINDS) and resident
    for device in told:
        row = Row()
        row.add(device, Tally(n for n in range(1, device.accepted + 1) for _ in range(seen[device.name, n])))
        assert row.problems(device.kind) == []
