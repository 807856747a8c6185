"""The course of a rollout: its waves, outcomes, and when it stops."""

import pytest

from inflight_tools.update.waves import Course, waves

TEN = [f"d{i}" for i in range(10)]


@pytest.mark.parametrize(
    "canary, percent, sizes",
    [(1, 25, [1, 3, 3, 3]), (0, 100, [10]), (2, 30, [2, 3, 3, 2]), (10, 1, [10]), (50, 50, [10])],
)
def test_every_device_is_in_one_wave(canary, percent, sizes):
    found = waves(TEN, canary, percent)
    assert [len(wave) for wave in found] == sizes
    assert sum(found, []) == TEN


def course(*planned, stop_at=10, patience_s=100):
    return Course(7, list(planned), stop_at, patience_s)


def tell(course, device, state, release=7, **more):
    return course.message(device, {"release": release, "state": state, **more})


def test_a_wave_begins_when_the_one_before_has_ended():
    found = course(["a"], ["b", "c"])
    assert found.next_wave(0) == ["a"] and found.next_wave(1) == []
    assert [tell(found, "a", state) for state in ("fetch", "fetch", "trial")] == [True, False, True]
    assert found.next_wave(2) == []
    assert tell(found, "a", "good")
    assert found.next_wave(3) == ["b", "c"]
    for device in "bc":
        assert not found.ended
        tell(found, device, "good")
    assert found.ended and not found.stopped and not found.failed
    assert found.next_wave(4) == []


def test_an_outcome_of_another_release_of_that_number_is_none():
    found = Course(7, [["a", "b", "c", "d"]], 101, 100, "aa")
    found.next_wave(0)
    for device, state, digest in (("a", "good", "aa"), ("b", "good", "bb"), ("c", "bad", "bb"), ("d", "trial", "bb")):
        assert tell(found, device, state, sha256=digest)
    assert found.states == {"a": "good", "b": "refused", "c": "refused", "d": "trial"}
    assert found.reasons["b"] == "another release 7 runs there: give this one a higher number"
    assert found.reasons["c"] == "another release 7 has failed there: give this one a higher number"
    assert tell(found, "d", "good")  # an earlier version of Inflight tells no digest
    assert found.states["d"] == "good"


def test_it_stops_when_a_canary_fails():
    found = course(["a"], ["b"])
    found.next_wave(0)
    tell(found, "a", "bad", reason="no connection")
    assert found.stopped and found.ended and found.next_wave(1) == []
    assert found.reasons == {"a": "no connection"}


def test_it_stops_at_the_share_of_failures_among_those_that_began():
    found = course(TEN[:1], TEN[1:], stop_at=20)
    found.next_wave(0)
    tell(found, "d0", "good")
    found.next_wave(1)
    tell(found, "d1", "refused", reason="too large")
    assert not found.stopped
    tell(found, "d2", "bad")
    assert found.stopped and sorted(found.failed) == ["d1", "d2"]


def test_a_device_without_an_outcome_fails_after_a_time():
    found = course(["a", "b"], stop_at=60)
    found.next_wave(50)
    assert found.expire(149) == []
    tell(found, "a", "good")
    assert found.expire(150) == ["b"]
    assert found.ended and found.states == {"a": "good", "b": "expired"}


def test_messages_that_are_not_of_this_rollout_change_nothing():
    found = course(["a"], ["b"])
    found.next_wave(0)
    assert not tell(found, "a", "good", release=6)
    assert not tell(found, "b", "good")  # not begun
    assert not tell(found, "x", "good")
    assert not tell(found, "a", "dancing")
    assert found.states == {"a": "waiting"}
    assert found.summary() == "wave 1 of 2: 1 waiting"
