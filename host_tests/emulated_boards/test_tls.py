"""TLS on the real firmware: a handshake takes half a minute here, and a second on a board."""

import pytest

from host_tests.emulated_boards.tasks import TLS, WRONG_AUTHORITY, WRONG_NAME
from tools.peers.subscriber import Subscriber

pytestmark = pytest.mark.timeout(3600)


def test_known_authority(bench):
    async def live(board):
        with Subscriber(bench.brokers.plain.port, "inflight/tls/#") as subscriber:
            await board.until(lambda: subscriber.find("inflight/tls/status"), 400, "the birth message")
            subscriber.publish("inflight/tls/command/ping", "over TLS")
            return (await board.until(lambda: subscriber.find("inflight/tls/reply/ping"), 100, "the reply"))[0].fields

    assert bench.copy(live, TLS, 600)["echo"] == "over TLS"


@pytest.mark.parametrize("task, who", [(WRONG_AUTHORITY, "impostor"), (WRONG_NAME, "astray")])
def test_untrusted_broker(bench, task, who):
    """It receives no packet; the sensor continues to measure, and reports the reason."""

    async def live(board):
        with Subscriber(bench.brokers.plain.port, f"inflight/{who}/#") as subscriber:
            await board.until(lambda: b"inflight:" in board.console, 400, "a word about it")
            held = len(board.notes)
            await board.until(lambda: len(board.notes) > held, 300, "a message is accepted")
            return board.tail(), subscriber.messages

    said, delivered = bench.copy(live, task, 750)
    assert "certificate" in said or "CERT" in said or "X509" in said, said
    assert not delivered
