"""Power cut at every program, every erase and every byte within them, while messages of QoS 1 and 2 go both ways.

One exchange, whole; host_tests/crash has the device, the broker and the judge, and cuts what chance writes. After each
cut the device starts again from that flash, connects again, and finishes its work. Nothing that publish() accepted may
be lost, no QoS 2 message may come twice."""

import pytest

from host_tests.crash.explorer import Explorer
from host_tests.cutting import GRANULARITIES

# QoS and size of the payload of what the device publishes; sizes that end in all places of a page.
OUT = [(1, 30), (2, 40), (2, 1), (1, 64), (2, 90), (1, 0), (2, 64), (1, 17)]
IN = [(2, 4), (1, 5), (2, 5), (2, 10)]
SETUP = {"sectors": 4, "size": 1024, "stuck": 1, "max_inflight": 3}
STEPS = [["connect"], *(["give", qos, size] for qos, size in IN)]
for i, (qos, size) in enumerate(OUT):
    STEPS += [["publish", size, qos], ["settle"]][: 1 + i % 2]


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("quick_crc")
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_nothing_accepted_is_lost_and_nothing_comes_twice(granularity, record_property):
    """[MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT-4.3.3-2] [MQTT-4.4.0-1] [MQTT-4.1.0-1] [MQTT-2.3.1-3] [MQTT-3.3.1-1] At every
    operation of the flash, and at every byte within it."""
    explorer = Explorer({**SETUP, "granularity": granularity}, STEPS, ways=None, deepest=1)
    assert any(operation.name == "erase" for operation in explorer.record())
    explorer.explore()
    cuts = explorer.count["cuts"]
    record_property("cut points", cuts)
    print(f"\n{granularity}: {cuts} power cuts, 0 lost, 0 QoS 2 duplicates")
    assert cuts > 1000
