"""A fleet's hours on the virtual clock, and how it comes back to a broker that was away. `make soak` runs a day."""

import pytest

import inflight.counters as counters
import inflight.giving_up as giving_up
from dev.soak import day, storm
from dev.soak.device import WAYS
from dev.soak.weather import KINDS
from inflight import Journal
from inflight.journal import DONE

CLEAN = [way for way in WAYS if True in way.clean]
FULL = [way for way in WAYS if way.when_full]


def test_half_an_hour_in_bad_weather():
    """Nothing lost but what may be, and that is counted; QoS 2 once, nobody stuck, in both directions."""
    lived = day.live(0.5, 2 * len(KINDS), 30, seed=13)
    assert lived.problems() == []
    assert lived.restarts >= 1  # so that every device connects again
    assert lived.lives > lived.cuts >= 10
    assert lived.commands.accepted >= 100
    assert sum(row.given_up for row in lived.rows.values()) >= 1
    assert sum(row.dropped for row in lived.rows.values()) >= 10
    for kind, row in lived.rows.items():
        assert row.accepted >= 30
        assert row.faults >= 1 or kind == "clear"


def test_the_same_seed_is_the_same_day():
    first, second = (day.live(0.1, len(KINDS), 20, seed=3) for _ in range(2))
    assert first.rows == second.rows


def test_reconnects_are_spread():
    """No storm when the broker is back: the more a second may see, the shorter it was away."""
    for away in (0, 30):
        connected, counts = storm.spread(60, away, 1, 60, seed=1)
        assert connected == 60
        assert sum(counts) == 60
        assert max(counts) <= storm.bound(60, away, 1, 60)
    assert storm.bound(60, 30, 1, 60) < 12


def test_a_storm_is_seen():
    """Devices without a pause come all at once: the bound is one that can be broken."""
    _, counts = storm.spread(15, 30, 0, 0, seed=1)
    assert max(counts) == 15 > storm.bound(15, 30, 1, 60)


def give_up_all(monkeypatch):
    """With a clean session goes also what never left."""
    discard = giving_up.discard

    def discard_all(self):
        n = discard(self)
        while self.rows:
            self.journal.mark(self.addresses[0], DONE)
            self.remove(0)
            n += 1
        return n

    monkeypatch.setattr(giving_up, "discard", discard_all)


def give_up_nothing(monkeypatch):
    """What a clean session should have taken with it is sent in the next one."""
    monkeypatch.setattr(giving_up, "discard", lambda self: 0)


def drop_without_a_count(monkeypatch):
    make_space = giving_up.make_space

    def uncounted(self, size):
        before = self.count[counters.DROPPED]
        made = make_space(self, size)
        self.count[counters.DROPPED] = before
        return made

    monkeypatch.setattr(giving_up, "make_space", uncounted)


def count_twice(monkeypatch):
    make_space = giving_up.make_space

    def counted_twice(self, size):
        before = self.count[counters.DROPPED]
        made = make_space(self, size)
        self.count[counters.DROPPED] += self.count[counters.DROPPED] - before
        return made

    monkeypatch.setattr(giving_up, "make_space", counted_twice)


def answer_before_it_is_durable(monkeypatch):
    monkeypatch.setattr(Journal, "commit", lambda self: None)


@pytest.mark.parametrize(
    "mutate, ways, seed, problem",
    [
        (give_up_all, CLEAN, 2, "messages lost"),
        (give_up_nothing, CLEAN, 2, "messages of QoS 2 came twice"),
        (drop_without_a_count, FULL, 2, "messages lost"),
        (count_twice, FULL, 2, "messages counted as dropped arrived"),
        (answer_before_it_is_durable, CLEAN, 3, "messages of QoS 2 came twice"),
    ],
)
def test_a_client_that_is_wrong_is_seen(monkeypatch, mutate, ways, seed, problem):
    """What is found of devices that do this and live in these ways."""
    mutate(monkeypatch)
    assert any(problem in found for found in day.live(0.25, 2 * len(KINDS), 5, seed, ways).problems())
