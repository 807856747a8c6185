"""A plain client without a journal, on the real firmware."""

import pytest

from dev.ear import Ear
from host_tests.emulated_boards.tasks import PLAIN

pytestmark = pytest.mark.timeout(300)


def test_messages_of_qos_0_come_in_order(bench):
    async def live(board):
        with Ear(bench.brokers.plain.port, "plain/#") as ear:
            await board.until(lambda: len(ear.heard) > 9, 120, "messages")
            return ear.heard

    heard = bench.copy(live, PLAIN, 150)
    numbers = [one.fields["n"] for one in heard]
    assert numbers == list(range(1, len(numbers) + 1)) and {one.qos for one in heard} == {0}
