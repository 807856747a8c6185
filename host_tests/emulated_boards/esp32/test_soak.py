"""A sensor that runs for an hour (SOAK_MINUTES) has as much heap at the end as at the beginning."""

import os
from statistics import median

import pytest

from host_tests.emulated_boards.tasks import CUT
from tools.peers.subscriber import Subscriber

MINUTES = float(os.environ.get("SOAK_MINUTES", 60))
# Bytes of heap that messages in flight take, of which a host with other work leaves more. One block of 16 bytes that a
# message or a report left behind would take far more in an hour.
IN_FLIGHT = 4096
pytestmark = [pytest.mark.boards("esp32"), pytest.mark.timeout(600 + 240 * MINUTES)]


def test_the_heap_is_flat(bench, record_property):
    """So many seconds of the board's own, which may be more here: it measures each 200 ms and reports each second."""

    async def live(board):
        with Subscriber(bench.brokers.plain.port, "inflight/sensor/#") as subscriber:

            def over():
                # Asked a hundred times a second: it parses one message, not all.
                healths = subscriber.find("inflight/sensor/health")
                return healths and healths[-1].fields["up"] >= 60 * MINUTES and healths

            healths = await board.until(over, 180 * MINUTES, "the last minute")
            newest = healths[-1].fields["seq"]
            # A report (QoS 1) may overtake telemetry (QoS 2), which takes one exchange more.
            await board.until(lambda: subscriber.numbers() >= set(range(newest + 1)), 60, "all that was accepted")
            return [one.fields for one in healths], newest

    healths, newest = bench.copy(live, CUT, 200 * MINUTES)
    heaps = [health["heap"] for health in healths]
    third = len(heaps) // 3
    thirds = heaps[:third], heaps[third : 2 * third], heaps[2 * third :]
    record_property("seconds, messages", (healths[-1]["up"], newest + 1))
    record_property("free heap by thirds: median, least", [(median(heaps), min(heaps)) for heaps in thirds])
    assert median(thirds[2]) >= median(thirds[0]) - IN_FLIGHT
