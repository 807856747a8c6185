"""Tests of a soak's counters: each kind of failure is reported."""

from types import SimpleNamespace

from tools.reference.oracle import Tally
from tools.soak.excused import Excused
from tools.soak.result import Row


def device(**what):
    plain = {"accepted": 3, "qos": 1, "settled": True, "when_full": None, "dropped": 0, "excused": ()}
    return SimpleNamespace(**{**plain, **what})


def test_row():
    """Loss, a repeated QoS 2 message and a stuck device are problems; a repeated QoS 1 message is not."""
    row = Row()
    row.add(device(), Tally([1, 2, 2, 3]))
    assert row.problems("kind") == []
    row.add(device(qos=2, settled=False), Tally([1, 2, 2]))
    found = [problem.removeprefix("kind: ") for problem in row.problems("kind")]
    assert found == ["1 messages lost", "1 messages of QoS 2 came twice", "1 devices stuck"]
    assert (row.devices, row.accepted, row.repeated) == (2, 6, 1)


def test_messages_that_may_be_missing():
    """Messages discarded with a session are not lost. The count of messages that a full journal dropped is exact."""
    row = Row()
    row.add(device(qos=2, excused={2}), Tally([1, 3]))
    row.add(device(when_full="oldest", dropped=2), Tally([3]))
    assert row.problems("kind") == []
    assert (row.given_up, row.dropped) == (1, 2)
    row.add(device(qos=2, excused={2}), Tally([2, 3]))
    row.add(device(when_full="oldest", dropped=2), Tally([1, 3]))
    row.add(device(when_full="newest", dropped=1), Tally([3]))
    assert row.problems("kind") == ["kind: 2 messages lost", "kind: 1 messages counted as dropped arrived"]


def excused(pending, clean=True, restart=False, online=True):
    """The excused numbers of messages 1 to 3, with the same Message IDs. The first was sent, with max_inflight 2;
    `pending` ones are still pending at the next connection."""
    some = Excused()
    some.life_begun(pending.__contains__, 2, clean)
    for number in (1, 2, 3):
        some.accepted(number, number)
    some.may_leave(3 if online else 1)
    some.offered(1)
    if restart:
        some.life_begun((1, 2, 3).__contains__, 2, clean)
    some.session_begun(pending.__contains__, clean)
    return some.numbers


def test_excused():
    """If a session has ended: messages sent and no longer pending; after a restart also those perhaps sent."""
    assert excused([2, 3]) == {1}
    assert excused([1, 2, 3]) == set()
    assert excused([]) == {1}
    assert excused([], clean=False) == set()
    assert excused([], restart=True) == {1, 2}
    assert excused([], restart=True, online=False) == {1}
