"""Virtual devices with mosquitto, in every kind of bad network, on the real clock."""

import pytest

from host_tests.waiting import wait_for
from tools.demo.subscriber import Subscriber
from tools.soak.fleet import LiveFleet
from tools.soak.proxy import KINDS


def until(condition):
    return wait_for(condition, 90, pause_s=0.1)


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.timeout(1800)
def test_live_fleet(mosquitto):
    """Two devices of each kind, QoS 1 and 2. The broker restarts, the access points go off; nothing is lost."""
    broker = mosquitto()
    with Subscriber(broker.port) as watcher:
        fleet = LiveFleet(broker.port, range(2 * len(KINDS)), 0.5, seed=1)
        assert until(lambda: fleet.ask(fleet.accepted) >= 100)
        watcher.leave()
        broker.restart()
        watcher.join()
        fleet.ask(fleet.outage)
        assert until(lambda: fleet.ask(fleet.unsettled) == 2 * len(KINDS))
        fleet.ask(fleet.join)
        assert until(lambda: fleet.ask(fleet.accepted) >= 200)
        fleet.ask(fleet.clear)
        assert until(lambda: fleet.ask(fleet.unsettled) == 0)
        rows = fleet.end(watcher.counts())
    assert sum(row.devices for row in rows.values()) == 2 * len(KINDS)
    assert [problem for kind, row in rows.items() for problem in row.problems(kind)] == []
