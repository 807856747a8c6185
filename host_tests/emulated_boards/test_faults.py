"""What befalls a sensor's network: it comes back by itself, and has lost nothing."""

import pytest

from dev.ear import Ear
from host_tests.emulated_boards.tasks import DROP, RESTART

pytestmark = pytest.mark.timeout(900)


def numbers(ear, topic):
    return [one.fields["seq"] for one in ear.find(topic)]


def whole(ear, base):
    """True if no number is missing among all that came, up to the newest."""
    seen = {one.fields["seq"] for one in ear.heard if one.topic.startswith(base) and "seq" in one.fields}
    return seen == set(range(min(seen), max(seen) + 1))


def test_the_broker_goes_and_comes_back(bench):
    broker = bench.brokers.frail
    topic = "inflight/restart/telemetry"

    async def live(board):
        with broker, Ear(broker.port, "inflight/restart/#") as ear:
            await board.until(lambda: len(ear.find(topic)) > 2, 120, "telemetry")
            broker.stop()
            held = len(board.notes)
            await board.until(lambda: len(board.notes) > held + 5, 120, "messages that wait")
            before = len(ear.find(topic))
            broker.start()
            newest = board.notes[-1] >> 2
            await board.until(lambda: max(numbers(ear, topic)) > newest, 200, "what waited, and more")
            await board.until(lambda: whole(ear, "inflight/restart/"), 60, "the last of it")
            return before, numbers(ear, topic)

    before, seen = bench.copy(live, RESTART, 500)
    assert len(seen) > before + 5
    assert len(seen) == len(set(seen)), "QoS 2 came twice"


def test_the_network_goes_and_comes_back(bench):
    port = bench.brokers.plain.port
    topic = "inflight/drop/telemetry"

    async def live(board):
        with Ear(port, "inflight/drop/#") as ear:
            await board.until(lambda: len(ear.find(topic)) > 2, 120, "telemetry")
            board.network_away()
            held = len(board.notes)
            await board.until(lambda: len(board.notes) > held + 5, 120, "messages that wait")
            board.network_back()
            newest = board.notes[-1] >> 2
            await board.until(lambda: max(numbers(ear, topic)) > newest, 300, "what waited, and more")
            await board.until(lambda: whole(ear, "inflight/drop/"), 60, "the last of it")
            return numbers(ear, topic)

    seen = bench.copy(live, DROP, 600)
    assert len(seen) > 8 and len(seen) == len(set(seen))
