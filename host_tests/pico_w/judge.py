"""What was accepted, and what became of it: power cuts may neither lose nor double anything."""

import random
import time
from collections import Counter

from pico_w.ear import Ear
from pico_w.power import HOW, KINDS

_LIFE_S = 150
_NONE = 1 << 30


class Cuts:
    """A chain of lives of one board, each ended by a power cut; every life goes on with the flash that the cut left.
    accepted: {sequence number: QoS} of what publish() returned for. cuts: how often, by kind."""

    def __init__(self, seed):
        self.accepted = {}
        self.cuts = Counter()
        self._dice = random.Random(seed)

    def _end(self, most, longest):
        """Decides how a life ends: between two instructions, or at one of its first `most` flash operations, or at an
        erase, of which there are few. Never after more than `longest` emulated seconds: each takes half a minute."""
        dice = self._dice
        seed = dice.random()
        if seed < 0.2:
            seconds = dice.uniform(0.02, longest)
            return lambda power: power.cut_in(seconds)
        how = dice.choice((*HOW, "torn"))
        count, kinds = (1, ("erase",)) if seed < 0.35 else (dice.randint(1, most), KINDS)

        def plan(power):
            power.cut_at_operation(count, how, seed, kinds)
            power.cut_in(longest)

        return plan

    def live(self, bench, task, flash, most, longest):
        """One life and its end, as _end() wants it. Returns what the cut leaves in the flash."""
        plan = self._end(most, longest)

        async def life(board):
            plan(board.power)
            await board.until(lambda: board.power.cut, _LIFE_S, "the power cut")
            return board.snapshot(), board.notes, board.power.cut

        flash, notes, cut = bench.copy(life, task, _LIFE_S + 20, flash)
        self.cuts[cut] += 1
        self._note(notes)
        return flash

    def last(self, bench, task, flash, port, topic, over=lambda ear: True):
        """A life that ends when messages of QoS 1 and of QoS 2 came to `topic` that it has published itself (order is
        kept at each level, so what waited before them has come), and over(ear) is true."""

        async def life(board):
            with Ear(port, topic, f"last{task}") as ear:  # here: the threads of a process are not copied

                def caught_up():
                    own = min((note >> 2 for note in board.notes), default=_NONE)
                    levels = {one.qos for one in list(ear.heard) if one.fields.get("seq", -1) >= own}
                    return levels >= {1, 2} and over(ear)

                await board.until(caught_up, 2 * _LIFE_S, "the end of the backlog")
            return board.notes

        self._note(bench.copy(life, task, 2 * _LIFE_S + 20, flash))

    def _note(self, notes):
        self.accepted |= {note >> 2: note & 3 for note in notes}


def judge(cuts, heard):
    """Returns (lost, doubled): sequence numbers that were accepted and not heard, and those of QoS 2 heard twice.
    heard() returns all messages so far."""
    lost, doubled = _judge(cuts, heard())
    end = time.monotonic() + 20  # what the broker delivered last is on its way
    while lost and time.monotonic() < end:
        time.sleep(0.1)
        lost, doubled = _judge(cuts, heard())
    return lost, doubled


def _judge(cuts, heard):
    times = Counter((one.fields["seq"], one.qos) for one in heard if "seq" in one.fields)
    lost = set(cuts.accepted.items()) - set(times)
    return sorted(lost), sorted(seq for (seq, qos), n in times.items() if qos == 2 and n > 1)
