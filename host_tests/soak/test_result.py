"""How a soak counts: a verdict that could not be bad would be worth nothing."""

from types import SimpleNamespace

from reference.oracle import Tally
from soak.result import Row


def tally(*numbers):
    made = Tally()
    for number in numbers:
        made.add(number)
    return made


def test_tally():
    some = tally(1, 3, 2, 2, 6)
    assert some.repeated == 1
    assert [some.missing(accepted) for accepted in (6, 7)] == [2, 3]


def test_row():
    """Loss, a second QoS 2 message and a device that is stuck are problems; a second QoS 1 message is none."""
    row = Row()
    row.add(SimpleNamespace(accepted=3, full=0, qos=1, settled=True), tally(1, 2, 2, 3))
    assert row.problems("kind") == []
    row.add(SimpleNamespace(accepted=3, full=0, qos=2, settled=False), tally(1, 2, 2))
    assert row.problems("kind") == [
        "kind: 1 messages lost",
        "kind: 1 messages of QoS 2 came twice",
        "kind: 1 devices stuck",
    ]
    assert (row.devices, row.accepted, row.repeated) == (2, 6, 1)
