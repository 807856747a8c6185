"""The lives of one board that updates itself, some of which a power cut ends."""

import random

from host_tests.emulated_boards.each_cut import History, newest
from host_tests.emulated_boards.judge import Cuts, compare
from host_tests.emulated_boards.started import FETCHING, SWITCH, TRYING
from tools.emulators.power import HOW
from update_record import FETCH, TRIAL, Record

_LIFE_S = 3600
_STATES = {FETCH: FETCHING, TRIAL: TRYING}
# Where lives are cut: how many operations of the flash after the first one that makes the record say this state.
_WINDOWS = {FETCHING: (FETCH, 1, 60), SWITCH: (TRIAL, 1, 8), TRYING: (TRIAL, 9, 40)}


def sent(subscriber):
    """The messages of the board; the others are sent to it."""
    return [one for one in list(subscriber.messages) if "/update/" not in one.topic]


class Chain:
    """cuts: of the lives so far. histories: of each life."""

    def __init__(self, emulated, brought, outcomes):
        self.flash = emulated.installed(brought)
        self.cuts = Cuts(0)
        self.histories = []
        self._emulated, self._outcomes = emulated, outcomes
        self._dice = random.Random(5)

    def update(self, number, lives):
        """Lives until release `number` has an outcome. `lives` of these are cut: in the fetch, in the switch, and in
        the trial, a third each."""
        for life in range(lives):
            self._live(number, list(_WINDOWS)[3 * life // lives])
            if self._outcomes.of(number):
                return
        self._live(number, None)

    def _live(self, number, phase):
        history = History(self.flash)

        async def work(board):
            history.notes = board.notes
            board.power.on_operation = history.note
            if phase:
                self._arrange_cut(board.power, history, phase)
            over = lambda: board.power.cut or self._outcomes.of(number)  # noqa: E731
            await board.until(over, _LIFE_S, f"the outcome of release {number}, or the power cut")
            board.power.off("between operations")
            return board.power.cut

        how, self.flash = self._emulated.cold(self.flash, work)
        if how == "between operations":
            assert history.flash == self.flash, "an operation of the flash was not seen"
            phase = _STATES.get(newest(self._emulated.unpack(self.flash)).state, "idle")
        self.cuts.ended(f"{how}, {phase}", list(history.notes))
        self.histories.append(history)

    def _arrange_cut(self, power, history, phase):
        """Power will go in `phase`."""
        dice = self._dice
        state, first, last = _WINDOWS[phase]
        plan = dice.randint(first, last * self._emulated.Bench.PARTS), dice.choice(HOW), dice.random()
        if newest(self._emulated.unpack(self.flash)).state == state:
            power.cut_at_operation(*plan)
            return
        head = Record().pack()[:4] + bytes([state])

        def note(kind, address, old, new):
            history.note(kind, address, old, new)
            if head in new and head not in old:
                power.on_operation = history.note
                power.cut_at_operation(*plan)

        power.on_operation = note

    def deliver(self, subscriber):
        """Lives until all that was accepted has arrived."""

        async def work(board):
            await board.until(lambda: not compare(self.cuts, sent(subscriber))[0], _LIFE_S, "the end of the backlog")

        self._emulated.cold(self.flash, work)
