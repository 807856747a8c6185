"""A board fetches releases over Wi-Fi, switches to them and tries them, while its power is cut: one whole application
always starts, nothing that publish() accepted is lost, and the outcome of each release is the right one."""

import os
import random
from collections import Counter

import pytest

from dev.power import HOW
from dev.subscriber import Subscriber
from host_tests.emulated_boards import each_cut
from host_tests.emulated_boards.fleet import BROKEN, GOOD, Fleet, Outcomes
from host_tests.emulated_boards.judge import Cuts, compare, judge
from inflight_tools.boards.device.broker import Broker
from inflight_tools.update.server import Server
from update_record import FETCH, TRIAL

pytestmark = pytest.mark.timeout(6 * 3600)
LIVES = int(os.environ.get("LIVES", "0"))  # that a power cut ends, for each release; the last ones have no cut
_LIFE_S = 3600
_STATES = {FETCH: "fetch", TRIAL: "trial"}


def phase(emulated, flash):
    """What the board was about, as its records say."""
    return _STATES.get(each_cut.newest(emulated.unpack(flash)).state, "idle")


def sent(subscriber):
    """The messages of the board; the others are sent to it."""
    return [one for one in list(subscriber.messages) if "/update/" not in one.topic]


def judged(emulated, history, brought, flash):
    """Judges what each cut of a life without one would have left, up to `flash`. Returns how many."""
    n = 0
    for how, left in history.cuts(seed=7):
        each_cut.check(emulated.unpack(left), brought, how)
        n += 1
    assert history.flash == flash, "an operation of the flash was not seen"
    return n


def test_updates(emulated, broker, record_property):
    fleet = Fleet(emulated.SENSOR, broker.port)
    brought = fleet.files()
    operations = 0
    dice = random.Random(5)
    cuts = Cuts(0)
    flash = emulated.installed(brought)
    place = Broker("127.0.0.1", broker.port, "inflight", None, None, None, None)
    with Server(place) as server, Subscriber(broker.port, "inflight/box/#", "judge") as subscriber:
        outcomes = Outcomes(server)
        for number, wanted in ((1, GOOD), (2, GOOD), (3, BROKEN)):
            server.announce("box", fleet.release(number, wanted))
            for life in range(LIVES + 1):
                cut = (dice.randint(1, 60 * emulated.Bench.PARTS), dice.choice(HOW)) if life < LIVES else None
                history = each_cut.History(flash)

                async def work(board, number=number, cut=cut, history=history):
                    if cut:
                        board.power.cut_at_operation(*cut, dice.random())
                    else:
                        board.power.on_operation = history.note
                    over = lambda: board.power.cut or outcomes.of(number)  # noqa: E731
                    await board.until(over, _LIFE_S, f"the outcome of release {number}, or the power cut")
                    board.power.off("between operations")
                    return list(board.notes), board.power.cut

                (notes, how), flash = emulated.cold(flash, work)
                cuts.ended(f"{how}, {phase(emulated, flash)}", notes)
                if outcomes.of(number):
                    break
            if not cut:
                operations += judged(emulated, history, brought, flash)
            assert outcomes.of(number) == wanted, (number, outcomes.told)
        versions = Counter(one.fields.get("firmware", "")[5:] for one in subscriber.find("inflight/box/status"))
        assert set(versions) >= {"", "+1", "+2"} and "+3" not in versions, versions

        async def deliver(board):
            await board.until(lambda: not compare(cuts, sent(subscriber))[0], _LIFE_S, "the end of the backlog")

        emulated.cold(flash, deliver)
        lost, doubled = judge(cuts, lambda: sent(subscriber))
        record_property("power cuts", dict(cuts.cuts))
        record_property("states of the flash in which a whole application starts", operations)
        told = {"messages accepted": len(cuts.accepted), "delivered": len(sent(subscriber))}
        record_property("messages", told | {"lost": len(lost), "of QoS 2 doubled": len(doubled)})
        assert not lost and not doubled and not cuts.reused
