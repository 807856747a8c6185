"""A bare board that got the file of `inflight board image` alone: real firmware, file system and application."""

import contextlib
import os

import pytest

from inflight_tools.boards.images.board_image import make
from tools.peers import ntp
from tools.peers.subscriber import Subscriber

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture
def clock():
    """An NTP server where the board looks for one. Skips where its port takes a right that the tests have not got."""
    with contextlib.ExitStack() as running:
        try:
            running.enter_context(ntp.Server())
        except OSError as e:
            pytest.skip(f"no NTP server on this machine: {os.strerror(e.errno)}")
        yield


def online(emulated, broker, tmp_path, fields):
    """A board comes online and obeys. Returns the messages that it sent and the files that it has then."""
    settings = emulated.SENSOR.config(broker.port, "bare", qos=2, interval_ms=1000, health_ms=5000, **fields)
    (tmp_path / "config.json").write_bytes(settings)
    firmware = emulated.FIRMWARE
    image = make(emulated.VARIANT, firmware.find(), firmware.sha256, tmp_path / "config.json")

    async def live(board):
        with Subscriber(broker.port, "inflight/bare/#") as subscriber:
            await board.until(lambda: subscriber.find("inflight/bare/status"), 400, "the birth message")
            subscriber.publish("inflight/bare/command/ping", "hello")
            await board.until(lambda: subscriber.find("inflight/bare/reply/ping"), 60, "the reply to a command")
            await board.until(lambda: len(subscriber.find("inflight/bare/telemetry")) > 5, 60, "telemetry")
            return subscriber.messages

    delivered, brought, kept = emulated.run_image(tmp_path, image.file(), live)
    told = {one.topic.rpartition("bare/")[2]: one for one in delivered}
    assert told["status"].fields["state"] == "online"
    assert told["telemetry"].qos == 2
    assert told["reply/ping"].fields["echo"] == "hello"
    # The journal took its place beside the user's files, and touched none.
    kept = {path: content for path, content in kept.items() if not path.startswith("/journal/")}
    assert kept == brought and kept["/config.json"] == settings
    return told


def test_it_connects_publishes_and_executes_commands(emulated, broker, tmp_path, record_property):
    health = online(emulated, broker, tmp_path, {})["health"].fields
    record_property("free heap of a connected sensor", health["heap"])
    assert health["journal"]["where"] == emulated.WHERE
    assert health["errors"] == {}
    assert health["heap"] > emulated.HEAP


def test_it_sets_its_clock(emulated, broker, tmp_path, clock):
    assert online(emulated, broker, tmp_path, {})["telemetry"].fields["bt"] > 1_700_000_000, "the clock was not set"
