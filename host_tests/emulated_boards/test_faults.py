"""Faults of a sensor's network: it reconnects by itself, and nothing is lost."""

from contextlib import nullcontext

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


@pytest.mark.parametrize("task", [RESTART, DROP], ids=["broker", "network"])
def test_outage(bench, task):
    name, broker = ("restart", bench.brokers.frail) if task == RESTART else ("drop", bench.brokers.plain)
    topic = f"inflight/{name}/telemetry"

    async def live(board):
        is_broker = task == RESTART
        away, back = (broker.stop, broker.start) if is_broker else (board.network_away, board.network_back)
        with broker if is_broker else nullcontext(), Subscriber(broker.port, f"inflight/{name}/#") as subscriber:
            await board.until(lambda: len(subscriber.find(topic)) > 2, 120, "telemetry")
            away()
            held = len(board.notes)
            await board.until(lambda: len(board.notes) > held + 5, 120, "messages that wait")
            before = len(subscriber.find(topic))
            back()
            newest = board.notes[-1] >> 2
            await board.until(lambda: max(numbers(subscriber, topic)) > newest, 300, "what waited, and more")
            await board.until(lambda: whole(subscriber, f"inflight/{name}/"), 60, "the last of it")
            return before, numbers(subscriber, topic)

    before, seen = bench.copy(live, task, 3000)  # what is waited for above tells more
    assert len(seen) >= before + 5
    assert len(seen) == len(set(seen)), "QoS 2 came twice"
