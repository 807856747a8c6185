"""Cuts the power at every program, every erase and every eleventh byte within them (`make crash`: every byte), while
messages of QoS 1 and 2 are exchanged.

One complete exchange, with the simulation of host_tests/crash. After each cut the device restarts, reconnects and
completes its work. No accepted message may be lost, no QoS 2 message may come twice."""

from functools import partial

import pytest

from faults import every_way
from host_tests.thorough import more
from tools.crash.cutting import APART
from tools.crash.explorer import Explorer

# (QoS, payload size) of published messages; their records end at various offsets within a page.
OUT = [(1, 30), (2, 40), (2, 1), (1, 64), (2, 90), (1, 0), (2, 64), (1, 17)]
IN = [(2, 4), (1, 5), (2, 5), (2, 10)]
SETUP = {"sectors": 4, "size": 1024, "stuck": 1, "max_inflight": 3}
STEPS = [["connect"], *(["incoming", qos, size] for qos, size in IN)]
for i, (qos, size) in enumerate(OUT):
    STEPS += [["publish", size, qos], ["settle"]][: 1 + i % 2]


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("quick_crc")
@pytest.mark.parametrize("granularity", ["page-1", "page-256", *more("page-4", "page-64")])
def test_no_message_is_lost_or_repeated(granularity, record_property):
    """[MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT-4.3.3-2] [MQTT-4.4.0-1] [MQTT-4.1.0-1] [MQTT-2.3.1-3] [MQTT-3.3.1-1] At
    every operation of the flash, and within it."""
    explorer = Explorer({**SETUP, "granularity": granularity}, STEPS, ways=partial(every_way, apart=APART), deepest=1)
    assert any(operation.name == "erase" for operation in explorer.record())
    explorer.explore()
    cuts = explorer.count["cuts"]
    record_property("cut points", cuts)
    print(f"\n{granularity}: {cuts} power cuts, 0 lost, 0 QoS 2 duplicates")
    assert cuts > 600
