"""A plain client without a journal, on the real firmware."""

import pytest

from dev.pico_w.subscriber import Subscriber
from host_tests.pico_w.bench import PLAIN

pytestmark = [pytest.mark.long("INFLIGHT_PICO_W"), pytest.mark.timeout(300)]


def test_qos_0_messages_arrive_in_order(bench):
    async def live(board):
        with Subscriber(bench.brokers.plain.port, "plain/#") as subscriber:
            await board.until(lambda: len(subscriber.messages) > 9, 120, "messages")
            return subscriber.messages

    heard = bench.copy(live, PLAIN, 150)
    numbers = [one.fields["n"] for one in heard]
    assert numbers == list(range(1, len(numbers) + 1)) and {one.qos for one in heard} == {0}
