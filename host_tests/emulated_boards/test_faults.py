"""Faults of a sensor's network: it reconnects by itself, and nothing is lost."""

import pytest

from host_tests.emulated_boards.tasks import DROP, RESTART
from tools.peers.subscriber import Subscriber

pytestmark = pytest.mark.timeout(3600)


def numbers(subscriber, topic):
    return [one.fields["seq"] for one in subscriber.find(topic)]


def whole(subscriber, base):
    """True if no number is missing among all that came, up to the newest."""
    seen = {one.fields["seq"] for one in subscriber.messages if one.topic.startswith(base) and "seq" in one.fields}
    return seen == set(range(min(seen), max(seen) + 1))


def test_broker_outage(bench):
    broker = bench.brokers.frail
    topic = "inflight/restart/telemetry"

    async def live(board):
        with broker, Subscriber(broker.port, "inflight/restart/#") as subscriber:
            await board.until(lambda: len(subscriber.find(topic)) > 2, 120, "telemetry")
            broker.stop()
            held = len(board.notes)
            await board.until(lambda: len(board.notes) > held + 5, 120, "messages that wait")
            before = len(subscriber.find(topic))
            broker.start()
            newest = board.notes[-1] >> 2
            await board.until(lambda: max(numbers(subscriber, topic)) > newest, 200, "what waited, and more")
            await board.until(lambda: whole(subscriber, "inflight/restart/"), 60, "the last of it")
            return before, numbers(subscriber, topic)

    before, seen = bench.copy(live, RESTART, 500)
    assert len(seen) > before + 5
    assert len(seen) == len(set(seen)), "QoS 2 came twice"


def test_network_outage(bench):
    port = bench.brokers.plain.port
    topic = "inflight/drop/telemetry"

    async def live(board):
        with Subscriber(port, "inflight/drop/#") as subscriber:
            await board.until(lambda: len(subscriber.find(topic)) > 2, 120, "telemetry")
            board.network_away()
            held = len(board.notes)
            await board.until(lambda: len(board.notes) > held + 5, 120, "messages that wait")
            board.network_back()
            newest = board.notes[-1] >> 2
            await board.until(lambda: max(numbers(subscriber, topic)) > newest, 300, "what waited, and more")
            await board.until(lambda: whole(subscriber, "inflight/drop/"), 60, "the last of it")
            return numbers(subscriber, topic)

    seen = bench.copy(live, DROP, 600)
    assert len(seen) > 8 and len(seen) == len(set(seen))
