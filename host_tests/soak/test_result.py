"""How a soak counts: a verdict that could not be bad would be worth nothing."""

from types import SimpleNamespace

from dev.reference.oracle import Tally
from dev.soak.result import Row


def test_row():
    """Loss, a second QoS 2 message and a device that is stuck are problems; a second QoS 1 message is none."""
    row = Row()
    row.add(SimpleNamespace(accepted=3, full=0, qos=1, settled=True), Tally([1, 2, 2, 3]))
    assert row.problems("kind") == []
    row.add(SimpleNamespace(accepted=3, full=0, qos=2, settled=False), Tally([1, 2, 2]))
    assert row.problems("kind") == [
        "kind: 1 messages lost",
        "kind: 1 messages of QoS 2 came twice",
        "kind: 1 devices stuck",
    ]
    assert (row.devices, row.accepted, row.repeated) == (2, 6, 1)
