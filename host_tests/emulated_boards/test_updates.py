"""A board fetches releases over Wi-Fi, switches to them and tries them, while its power is cut: one whole application
always starts, nothing that publish() accepted is lost, and the outcome of each release is the right one.

To join Wi-Fi takes long. So what each power cut would leave is also judged in the lives that have none: by the flash,
and by a start with it on this machine."""

import os
import random
from collections import Counter

import pytest

from dev.power import HOW
from dev.subscriber import Subscriber
from host_tests.emulated_boards.each_cut import History, newest
from host_tests.emulated_boards.fleet import BROKEN, GOOD, Fleet, Outcomes
from host_tests.emulated_boards.judge import Cuts, compare, judge
from host_tests.emulated_boards.started import cut_each
from inflight_tools.boards.device.broker import Broker
from inflight_tools.update.server import Server
from update_record import FETCH, TRIAL

pytestmark = pytest.mark.timeout(6 * 3600)
LIVES = int(os.environ.get("LIVES", "0"))  # that a power cut ends, for each release; the last ones have no cut
CUTS = int(os.environ.get("CUTS", "200"))  # of the others, after which an application is started, for all releases
RELEASES = ((1, GOOD), (2, GOOD), (3, BROKEN))
_LIFE_S = 3600
_STATES = {FETCH: "fetch", TRIAL: "trial"}


def sent(subscriber):
    """The messages of the board; the others are sent to it."""
    return [one for one in list(subscriber.messages) if "/update/" not in one.topic]


class Chain:
    """The lives of one board. histories: of those without a cut."""

    def __init__(self, emulated, brought, outcomes):
        self.flash = emulated.installed(brought)
        self.cuts = Cuts(0)
        self.histories = []
        self._emulated, self._outcomes = emulated, outcomes
        self._dice = random.Random(5)

    def update(self, number):
        """Lives until release `number` has an outcome."""
        for life in range(LIVES + 1):
            self._live(number, life < LIVES)
            if self._outcomes.of(number):
                return

    def _live(self, number, is_cut):
        history = History(self.flash)
        dice = self._dice

        async def work(board):
            history.notes = board.notes
            if is_cut:
                count, how = dice.randint(1, 60 * self._emulated.Bench.PARTS), dice.choice(HOW)
                board.power.cut_at_operation(count, how, dice.random())
            else:
                board.power.on_operation = history.note
            over = lambda: board.power.cut or self._outcomes.of(number)  # noqa: E731
            await board.until(over, _LIFE_S, f"the outcome of release {number}, or the power cut")
            board.power.off("between operations")
            return board.power.cut

        how, self.flash = self._emulated.cold(self.flash, work)
        state = newest(self._emulated.unpack(self.flash)).state
        self.cuts.ended(f"{how}, {_STATES.get(state, 'idle')}", list(history.notes))
        if not is_cut:
            assert history.flash == self.flash, "an operation of the flash was not seen"
            self.histories.append(history)

    def deliver(self, subscriber):
        """Lives until all that was accepted has arrived."""

        async def work(board):
            await board.until(lambda: not compare(self.cuts, sent(subscriber))[0], _LIFE_S, "the end of the backlog")

        self._emulated.cold(self.flash, work)


def test_updates(emulated, broker, record_property):
    fleet = Fleet(emulated.SENSOR, broker.port)
    brought = fleet.files()
    place = Broker("127.0.0.1", broker.port, "inflight", None, None, None, None)
    with Server(place) as server, Subscriber(broker.port, "inflight/box/#", "judge") as subscriber:
        outcomes = Outcomes(server)
        chain = Chain(emulated, brought, outcomes)
        for number, wanted in RELEASES:
            server.announce("box", fleet.release(number, wanted))
            chain.update(number)
            assert outcomes.of(number) == wanted, (number, outcomes.told)
        versions = Counter(one.fields.get("firmware", "")[5:] for one in subscriber.find("inflight/box/status"))
        assert set(versions) >= {"", "+1", "+2"} and "+3" not in versions, versions
        chain.deliver(subscriber)
        cuts = chain.cuts
        lost, doubled = judge(cuts, lambda: sent(subscriber))
        record_property("power cuts", dict(cuts.cuts))
        told = {"messages accepted": len(cuts.accepted), "delivered": len(sent(subscriber))}
        record_property("messages", told | {"lost": len(lost), "of QoS 2 doubled": len(doubled)})
        assert not lost and not doubled and not cuts.reused
        delivered = {one.fields["seq"] for one in sent(subscriber) if "seq" in one.fields}
    judged, started = 0, Counter()
    for seed, history in enumerate(chain.histories):
        share = (CUTS + seed) // len(chain.histories)
        found = cut_each(emulated, history, seed, share, brought, delivered)
        judged, started = judged + found[0], started + found[1]
    record_property("power cuts that were judged by the flash", judged)
    record_property("of these after which the application was started", f"{sum(started.values())}: {dict(started)}")
