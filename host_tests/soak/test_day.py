"""A fleet's hours on the virtual clock, and how it comes back to a broker that was away. `make soak` runs a day."""

from dev.soak import day, storm
from dev.soak.weather import KINDS


def test_half_an_hour_in_bad_weather():
    """Nothing lost, QoS 2 once, nobody stuck, in both directions."""
    lived = day.live(0.5, len(KINDS), 30, seed=5)
    assert lived.problems() == []
    assert lived.restarts >= 1  # so that every device connects again
    assert lived.lives >= 1
    assert lived.commands.accepted >= 100
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
