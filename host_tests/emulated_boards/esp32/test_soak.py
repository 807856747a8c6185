"""A sensor that runs for an hour (SOAK_MINUTES) has as much heap at the end as at the beginning."""

import os

import pytest

from dev.subscriber import Subscriber
from host_tests.emulated_boards.tasks import CUT

MINUTES = float(os.environ.get("SOAK_MINUTES", 60))
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
            told = [one.fields for one in subscriber.messages]
            return [one.fields for one in healths], {fields["seq"] for fields in told if "seq" in fields}

    healths, numbers = bench.copy(live, CUT, 200 * MINUTES)
    heaps = [health["heap"] for health in healths]
    third = len(heaps) // 3
    record_property(
        "seconds, messages, least free heap by thirds",
        (healths[-1]["up"], len(numbers)) + tuple(min(heaps[i * third : (i + 1) * third]) for i in range(3)),
    )
    assert min(heaps[2 * third :]) >= min(heaps[:third])
    assert numbers == set(range(max(numbers) + 1))
