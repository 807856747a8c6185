"""The power of a board is cut while it publishes over Wi-Fi: nothing that publish() accepted is lost, no QoS 2
message comes twice, no number is given twice. Each chain of lives counts its cuts: 200 and more on the Pico W, 500 and
more on the ESP32."""

import random
from collections import Counter
from itertools import count

import pytest

from host_tests.emulated_boards.ageing import aged
from host_tests.emulated_boards.judge import ASLEEP, Cuts, judge
from host_tests.emulated_boards.tasks import CUT, OFFLINE, PUBLISHER, SLEEP
from tools.emulators.power import HOW
from tools.peers.subscriber import Subscriber

pytestmark = [pytest.mark.boards("pico_w", "esp32", "esp32_pinned"), pytest.mark.timeout(3600)]
CHAINS, SENSOR_LIVES = 6, 12


@pytest.mark.parametrize("number", range(CHAINS))
def test_a_publisher(bench, number, record_property):
    """Three lives of four stay offline, which takes less time; the fourth has their messages to deliver as well. Every
    other chain begins with a ring that has come round, so that it erases, and copies what the oldest sector holds. How
    far a life gets depends on how fast its broker answers: a chain that has accepted few messages has more lives."""
    full = number % 2 == 1
    cuts = Cuts(number, full)
    topic = f"cut/publisher{number}/#"
    port = bench.brokers.plain.port
    flash = bench.flash
    if full:
        flash, cuts.accepted = aged(flash, f"publisher{number}", topic.replace("#", "n"))
    with Subscriber(port, topic, f"judge{number}") as subscriber:
        for life in count():
            if life >= bench.LIVES and len(cuts.accepted) > bench.LIVES // 4:
                break
            task, most, longest = (OFFLINE, 28, 0.15) if life % 4 else (PUBLISHER, 36, 0.3)
            flash = cuts.live(bench, task + number, flash, most, longest)
        cuts.last(bench, PUBLISHER + number, flash, port, topic)
        judge(cuts, lambda: list(subscriber.messages), record_property)
    assert sum(cuts.cuts.values()) == life
    assert len({one.fields["epoch"] for one in subscriber.messages}) == 1
    assert not full or any("erase" in cut for cut in cuts.cuts)


def test_the_sensor(bench, record_property):
    """The application itself, which is told something in each life as well: exactly once in both directions. Its first
    life goes on until the broker knows it, and keeps what it is told."""
    cuts = Cuts(0)
    port = bench.brokers.plain.port

    def echoes(subscriber):
        found = subscriber.find("inflight/sensor/reply/ping")
        replies = {one.fields["seq"]: one.fields for one in found}  # QoS 1: once each
        return [(int(reply["echo"]), "redelivered" in reply) for reply in replies.values()]

    with Subscriber(port, "inflight/sensor/#", "judge") as subscriber:
        flash = cuts.first(bench, CUT, None, port, "inflight/sensor/status")
        subscriber.publish("inflight/sensor/command/ping", "0")
        for life in range(1, SENSOR_LIVES):
            flash = cuts.live(bench, CUT, flash, 20, 0.6)
            subscriber.publish("inflight/sensor/command/ping", str(life))
        obeyed = lambda subscriber: SENSOR_LIVES - 1 in dict(echoes(subscriber))  # noqa: E731
        cuts.last(bench, CUT, flash, port, "inflight/sensor/#", obeyed)
        judge(cuts, lambda: list(subscriber.messages), record_property)
    assert {number for number, _ in echoes(subscriber)} == set(range(SENSOR_LIVES))
    assert sum(cuts.cuts.values()) == SENSOR_LIVES
    for number, times in Counter(number for number, again in echoes(subscriber) if not again).items():
        assert times == 1, f"command {number} was obeyed twice, and passed for new"


@pytest.mark.boards("esp32", "esp32_pinned")
def test_a_sensor_that_sleeps(bench, record_property):
    """Every other cut comes while it sleeps or just wakes."""
    cuts = Cuts(2)
    port = bench.brokers.plain.port
    with Subscriber(port, "inflight/sleeper/#", "judge") as subscriber:
        flash = bench.flash
        for life in range(SENSOR_LIVES):
            if life % 2:
                flash = cuts.live(bench, SLEEP, flash, 20, 0.6)
            else:
                flash = cuts.live_until(bench, SLEEP, flash, ASLEEP, 3)
        cuts.last(bench, SLEEP, flash, port, "inflight/sleeper/#")
        judge(cuts, lambda: list(subscriber.messages), record_property)
    assert sum(cuts.cuts.values()) == SENSOR_LIVES


def test_the_first_start(bench, record_property):
    """Cut while it makes its journal, and again while it tidies up after that: each time from cold."""
    dice = random.Random(1)
    flash, cuts = None, Counter()
    for most in (370, 200, 100, 50, None):

        def plan(power, most=most):
            if most:
                power.cut_at_operation(dice.randint(1, most), dice.choice(HOW), dice.random())

        flash, cut = bench.first_start(plan, flash)
        if cut:
            cuts[f"{cut}, first start"] += 1
    record_property("power cuts", dict(cuts))
    record_property("messages", {})
    found = bench.unpack(flash)
    assert {path: content for path, content in found.items() if not path.startswith("/journal/")} == bench.files
    assert len(found) == len(bench.files) + bench.JOURNAL_FILES, "what a cut left was not tidied up"
