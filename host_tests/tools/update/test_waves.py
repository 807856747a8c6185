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
    for device, state, digest in (("a", "good", "aa"), ("b", "good", "bb"), ("c", "bad", "bb")):
        assert tell(found, device, state, sha256=digest)
    for state in ("fetch", "trial", "refused"):  # that of the same number for other boards: anybody can send it
        assert not tell(found, "d", state, sha256="bb")
    assert found.states == {"a": "good", "b": "refused", "c": "refused", "d": "waiting"}
    assert found.reasons["b"] == "another release 7 runs there: give this one a higher number"
    assert found.reasons["c"] == "another release 7 has failed there: give this one a higher number"
    assert tell(found, "d", "good")  # an earlier version of Inflight tells no digest
    assert found.states["d"] == "good"


def test_it_stops_at_the_share_of_failures_among_those_that_began():
    found = course(TEN[:1], TEN[1:9], TEN[9:], stop_at=20)
    found.next_wave(0)
    tell(found, "d0", "good")
    found.next_wave(1)
    tell(found, "d1", "refused", reason="too large")
    assert not found.stopped
    tell(found, "d2", "bad")
    assert found.stopped and found.ended and sorted(found.failed) == ["d1", "d2"]
    assert found.next_wave(2) == [] and found.reasons == {"d1": "too large"}


def test_a_device_without_an_outcome_fails_after_a_time():
    found = course(["a", "b"], stop_at=60)
    found.next_wave(50)
    assert found.expire(149) == []
    tell(found, "a", "good")
    assert found.expire(150) == ["b"]
    assert found.ended and found.states == {"a": "good", "b": "expired"}


def test_a_device_that_somebody_without_the_key_disturbs_is_no_failure():
    found = course(["a"], ["b"])
    found.next_wave(0)
    found.delay("a", "another sender has replaced the announcement")
    assert found.expire(100) == ["a"] and found.states == {"a": "disturbed"}
    assert found.reasons["a"] == "no outcome in time; another sender has replaced the announcement"
    assert not found.stopped and not found.failed and found.next_wave(101) == ["b"]


def test_how_much_of_the_release_a_device_has():
    found = course(["a", "b", "c"])
    found.next_wave(0)
    assert [found.fetched("a", share) for share in (0, 0.2, 0.26, 0.49, 0.8)] == [True, False, True, False, True]
    assert not found.fetched("x", 0.5)
    tell(found, "b", "fetch")
    assert not found.fetched("b", 0)  # its message has told that it begins
    assert found.summary({"b", "c", "x"}) == "wave 1 of 1: 2 fetch, 1 waiting; a 80 %, b 0 % offline, c offline"
    tell(found, "a", "trial")
    assert not found.fetched("a", 0.9)  # on its way when the last part had arrived
    assert found.summary() == "wave 1 of 1: 1 fetch, 1 trial, 1 waiting; b 0 %"
    found = course(TEN)  # a line names some of them
    found.next_wave(0)
    for device in TEN:
        found.fetched(device, 0.5)
    assert found.summary().endswith("; d0 50 %, d1 50 %, d2 50 %, d3 50 %, d4 50 %, d5 50 % and 4 more")


def test_messages_that_are_not_of_this_rollout_change_nothing():
    found = course(["a"], ["b"])
    found.next_wave(0)
    assert not tell(found, "a", "good", release=6)
    assert not tell(found, "b", "good")  # not begun
    assert not tell(found, "x", "good")
    assert not tell(found, "a", "dancing")
    assert found.states == {"a": "waiting"}
    assert found.summary() == "wave 1 of 2: 1 waiting"
