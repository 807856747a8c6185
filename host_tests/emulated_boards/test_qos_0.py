"""A plain client without a journal, on the real firmware."""

import pytest

from host_tests.emulated_boards.tasks import PLAIN
from tools.peers.subscriber import Subscriber

pytestmark = pytest.mark.timeout(3600)


def test_qos_0_messages_arrive_in_order(bench):
    async def live(board):
        with Subscriber(bench.brokers.plain.port, "plain/#") as subscriber:
            await board.until(lambda: len(subscriber.messages) > 9, 120, "messages")
            return subscriber.messages

    delivered = bench.copy(live, PLAIN, 150)
    numbers = [one.fields["n"] for one in delivered]
    assert numbers == list(range(1, len(numbers) + 1)) and {one.qos for one in delivered} == {0}
