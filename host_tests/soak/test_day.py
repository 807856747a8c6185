"""Soak tests on the virtual clock: minutes of a fleet (`make soak` runs a day), and reconnects after an outage."""

import pytest

from host_tests.soak import storm
from host_tests.thorough import THOROUGH, some
from inflight import Journal
from inflight.journal.journal import DONE
from inflight.session.session import Session
from tools.soak import day
from tools.soak.device import WAYS
from tools.soak.proxy import KINDS

CLEAN = [way for way in WAYS if True in way.clean]


def test_a_fleet_in_bad_networks():
    """Only messages that may be lost are lost, and these are counted; QoS 2 exactly once in both directions; no device
    is stuck."""
    hours = 0.5 if THOROUGH else 0.1
    result = day.simulate(hours, 2 * len(KINDS), 30, seed=15)
    assert result.problems() == []
    assert result.device_restarts > result.cuts >= 20 * hours
    assert result.commands.accepted >= 200 * hours
    assert sum(row.dropped for row in result.rows.values()) >= 20 * hours
    assert all(row.accepted >= 60 * hours for row in result.rows.values())
    if THOROUGH:
        assert result.broker_restarts >= 1  # so every device reconnects
        assert sum(row.given_up for row in result.rows.values()) >= 1
        assert all(row.faults >= 1 or kind == "clear" for kind, row in result.rows.items())


def test_reconnects_are_spread():
    """No reconnect storm after an outage; the bound is higher after a shorter one."""
    for away in some((30, 0), 2):
        connected, counts = storm.spread(60, away, 1, 60, seed=1)
        assert connected == 60
        assert sum(counts) == 60
        assert max(counts) <= storm.bound(60, away, 1, 60)
    assert storm.bound(60, 30, 1, 60) < 12


@pytest.mark.long("INFLIGHT_TOOLS")
def test_a_storm_is_detected():
    """Devices without back-off reconnect all at once, and exceed the bound."""
    _, counts = storm.spread(15, 30, 0, 0, seed=1)
    assert max(counts) == 15 > storm.bound(15, 30, 1, 60)


def give_up_all(monkeypatch):
    """A clean session also discards messages that were never sent."""
    discard = Session.discard_sent

    def discard_all(self):
        n = discard(self)
        while self.rows:
            self.journal.mark(self.addresses[0], DONE)
            self.remove(0)
            n += 1
        return n

    monkeypatch.setattr(Session, "discard_sent", discard_all)


def answer_before_it_is_durable(monkeypatch):
    monkeypatch.setattr(Journal, "commit", lambda self, waiting=0: None)


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.parametrize(
    "mutate, seed, problem",
    [(give_up_all, 2, "messages lost"), (answer_before_it_is_durable, 3, "messages of QoS 2 came twice")],
)
def test_a_defective_client_is_detected(monkeypatch, mutate, seed, problem):
    mutate(monkeypatch)
    found = day.simulate(0.1, 2 * len(KINDS), 5, seed, CLEAN).problems()
    assert any(problem in one for one in found)
