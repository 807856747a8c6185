"""TLS on the real firmware: a handshake takes half a minute here, and a second on a board."""

import pytest

from dev.ear import Ear
from host_tests.emulated_boards.tasks import TLS, WRONG_AUTHORITY, WRONG_NAME

pytestmark = pytest.mark.timeout(900)


def test_the_right_authority(bench):
    async def live(board):
        with Ear(bench.brokers.plain.port, "inflight/tls/#") as ear:
            await board.until(lambda: ear.find("inflight/tls/status"), 400, "the birth message")
            ear.say("inflight/tls/command/ping", "over TLS")
            return (await board.until(lambda: ear.find("inflight/tls/reply/ping"), 100, "the reply"))[0].fields

    assert bench.copy(live, TLS, 600)["echo"] == "over TLS"


@pytest.mark.parametrize("task, who", [(WRONG_AUTHORITY, "impostor"), (WRONG_NAME, "astray")])
def test_a_broker_that_is_not_the_right_one(bench, task, who):
    """It is told nothing; the sensor goes on measuring, and says what is wrong."""

    async def live(board):
        with Ear(bench.brokers.plain.port, f"inflight/{who}/#") as ear:
            await board.until(lambda: b"inflight:" in board.console, 400, "a word about it")
            held = len(board.notes)
            await board.until(lambda: len(board.notes) > held, 300, "a message is accepted")
            return board.tail(), ear.heard

    said, heard = bench.copy(live, task, 750)
    assert "certificate" in said or "CERT" in said or "X509" in said, said
    assert not heard
