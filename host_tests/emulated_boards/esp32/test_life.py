"""What a sensor does when it is not just publishing: it sleeps, crashes, hangs."""

import pytest

from host_tests.emulated_boards.judge import MARKS
from host_tests.emulated_boards.tasks import CRASH, HANG, SLEEP
from inflight_tools.boards import slots
from inflight_tools.boards.build.bundle import files
from tools.peers.subscriber import Subscriber

pytestmark = [pytest.mark.boards("esp32"), pytest.mark.timeout(3600)]
_S = 200


def told(subscriber, topic, **fields):
    """The messages to `topic` that say all of `fields`."""
    return [one.fields for one in subscriber.find(topic) if fields.items() <= one.fields.items()]


def test_a_sensor_that_sleeps(bench, record_property):
    """Each wake finds in RTC memory what the one before left, delivers, and sleeps again."""

    async def live(board):
        with Subscriber(bench.brokers.plain.port, "inflight/sleeper/#") as subscriber:
            health, status = "inflight/sleeper/health", "inflight/sleeper/status"
            await board.until(lambda: len(told(subscriber, health, reset="deep-sleep")) > 2, _S, "three wakes")
            await board.until(lambda: told(subscriber, status, state="asleep"), _S, "that it sleeps")
            return subscriber.find("inflight/sleeper/telemetry"), told(subscriber, health, reset="deep-sleep")

    telemetry, healths = bench.copy(live, SLEEP, 2 * _S)
    numbers = [one.fields["seq"] for one in telemetry]
    assert len(numbers) == len(set(numbers)) and numbers == sorted(numbers)
    assert len({one.fields["epoch"] for one in telemetry}) == 1
    wakes = [health["wake"] for health in healths]
    assert all(wake["missed"] == 0 and 0 < wake["wifi"] < wake["total"] for wake in wakes)
    record_property("wakes", wakes)


def test_a_start_and_a_wake_read_little_of_the_flash(emulated, broker, record_property):
    """As they are deployed. The chip's transactions are counted, so the machine's speed does not matter."""
    config = emulated.SENSOR.config(broker.port, "reader", qos=2, sleep_ms=4000, awake_ms=30_000)
    files_of_board = slots.packed(files("esp32"), "esp32") | {"/config.json": config}

    async def live(board):
        counts = []
        with Subscriber(broker.port, "inflight/reader/#") as subscriber:

            async def counted(topic, **fields):
                began, seen = board.power.transactions, len(told(subscriber, topic, **fields))
                await board.until(lambda: len(told(subscriber, topic, **fields)) > seen, _S, f"one more to {topic}")
                counts.append(board.power.transactions - began)

            await counted("inflight/reader/status", state="online")
            board.reset()
            await counted("inflight/reader/status", state="online")
            await board.until(lambda: told(subscriber, "inflight/reader/status", state="asleep"), _S, "that it sleeps")
            await counted("inflight/reader/telemetry")
        return counts

    counts, _ = emulated.cold(emulated.installed(files_of_board), live)
    record_property("transactions of the flash in a first start, another one and a wake", counts)
    assert all(count < most for count, most in zip(counts, (17_500, 7_300, 7_600), strict=True))


@pytest.mark.parametrize("task, who, cause", [(CRASH, "crasher", "soft"), (HANG, "hanger", "watchdog")])
def test_it_starts_again_when_its_firmware_fails(bench, task, who, cause):
    """A crash ends in a new start, a loop without an end too, by the watchdog. Nothing that was accepted is lost."""

    async def live(board):
        with Subscriber(bench.brokers.plain.port, f"inflight/{who}/#") as subscriber:
            await board.until(
                lambda: told(subscriber, f"inflight/{who}/health", reset=cause), _S, "health after a new start"
            )
            newest = max(note >> 2 for note in board.notes if note < MARKS)
            await board.until(lambda: subscriber.numbers() >= set(range(newest + 1)), _S, "what was accepted before")

    bench.copy(live, task, 2 * _S, watchdogs=task == HANG)
