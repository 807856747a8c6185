"""The power of a Pico W is cut while it publishes over Wi-Fi, its journal in pinned files of the stock file system:
nothing that publish() accepted is lost, no QoS 2 message comes twice. 200 cuts at least: each chain counts its own."""

import random
from collections import Counter

import pytest

from dev.pico_w import copies
from dev.pico_w.board import Board
from dev.pico_w.filesystem import pack, unpack
from dev.pico_w.power import HOW
from dev.pico_w.subscriber import Subscriber
from host_tests.pico_w.ageing import aged
from host_tests.pico_w.bench import CUT, OFFLINE, PUBLISHER, READY, application
from host_tests.pico_w.judge import Cuts, judge

pytestmark = [pytest.mark.long("INFLIGHT_PICO_W"), pytest.mark.timeout(3600)]
CHAINS, PUBLISHER_LIVES, SENSOR_LIVES = 6, 32, 12
assert CHAINS * PUBLISHER_LIVES + SENSOR_LIVES >= 200


def verdict(cuts, subscriber, record_property):
    """Judges, and records the numbers of the run."""
    lost, doubled = judge(cuts, lambda: list(subscriber.messages))
    record_property("power cuts", dict(cuts.cuts))
    told = {"messages accepted": len(cuts.accepted), "delivered": len(subscriber.messages)}
    record_property("messages", told | {"lost": len(lost), "of QoS 2 doubled": len(doubled)})
    assert not lost and not doubled


@pytest.mark.parametrize("number", range(CHAINS))
def test_a_publisher(bench, number, record_property):
    """Three runs of four stay offline, which is faster; the fourth also delivers their messages. Every other chain
    begins with a full ring, so that sectors are erased and records copied."""
    full = number % 2 == 1
    cuts = Cuts(number, full)
    topic = f"cut/publisher{number}/#"
    port = bench.brokers.plain.port
    flash = bench.flash
    if full:
        flash, cuts.accepted = aged(flash, f"publisher{number}", topic.replace("#", "n"))
    with Subscriber(port, topic, f"judge{number}") as subscriber:
        for life in range(PUBLISHER_LIVES):
            task, most, longest = (OFFLINE, 8, 0.15) if life % 4 else (PUBLISHER, 20, 0.3)
            flash = cuts.live(bench, task + number, flash, most, longest)
        cuts.last(bench, PUBLISHER + number, flash, port, topic)
        verdict(cuts, subscriber, record_property)
    assert len(cuts.accepted) > PUBLISHER_LIVES // 4 and sum(cuts.cuts.values()) == PUBLISHER_LIVES
    assert len({one.fields["epoch"] for one in subscriber.messages}) == 1
    assert not full or any("erase" in cut for cut in cuts.cuts)


def test_the_sensor(bench, record_property):
    """The real application, which also receives a command in each run: exactly once in both directions. The first run
    lasts until the broker has its session, which keeps the commands."""
    cuts = Cuts(0)
    port = bench.brokers.plain.port

    def echoes(subscriber):
        replies = {
            one.fields["seq"]: one.fields for one in subscriber.find("inflight/sensor/reply/ping")
        }  # QoS 1: once each
        return [(int(reply["echo"]), "redelivered" in reply) for reply in replies.values()]

    with Subscriber(port, "inflight/sensor/#", "judge") as subscriber:
        flash = cuts.first(bench, CUT, None, port, "inflight/sensor/status")
        subscriber.publish("inflight/sensor/command/ping", "0")
        for life in range(1, SENSOR_LIVES):
            flash = cuts.live(bench, CUT, flash, 20, 0.6)
            subscriber.publish("inflight/sensor/command/ping", str(life))
        cuts.last(
            bench,
            CUT,
            flash,
            port,
            "inflight/sensor/#",
            lambda subscriber: SENSOR_LIVES - 1 in dict(echoes(subscriber)),
        )
        verdict(cuts, subscriber, record_property)
    assert {number for number, _ in echoes(subscriber)} == set(range(SENSOR_LIVES))
    assert sum(cuts.cuts.values()) == SENSOR_LIVES
    for number, times in Counter(number for number, again in echoes(subscriber) if not again).items():
        assert times == 1, f"command {number} was obeyed twice, and passed for new"


def test_the_first_start(bench, record_property):
    """Cut while it creates the journal, and again during the recovery: each time from a cold start."""
    dice = random.Random(1)
    code = application(bench.brokers)
    flash = pack(code)
    cuts = Counter()

    async def start(board):
        board.stop_at = READY
        await board.until(lambda: board.power.cut or READY in board.notes, 300, "a cut, or the journal")
        return board.power.cut

    for most in (370, 200, 100, 50, None):
        board = Board(flash)
        if most:
            board.power.cut_at_operation(dice.randint(1, most), dice.choice(HOW), dice.random())
        cut = copies.staged(start, board, board.switch_on)
        flash = {0: board.snapshot()}
        if cut:
            cuts[cut] += 1
    record_property("power cuts", dict(cuts))
    record_property("messages", {})
    found = unpack(flash[0])
    assert {path: content for path, content in found.items() if not path.startswith("/journal/")} == code
    assert len(found) == len(code) + 16, "what a cut left was not tidied up"
