"""What was accepted, and what became of it: power cuts may neither lose nor double anything."""

import random
import time
from collections import Counter

from dev.pico_w.ear import Ear
from dev.power import HOW, KINDS

_LIFE_S = 600
_NONE = 1 << 30


class Cuts:
    """A chain of lives of one board, each ended by a power cut; every life goes on with the flash that the cut left.
    accepted: {sequence number: QoS} of what publish() returned for. cuts: how often, by kind. erases: the journal has
    come round, so that there are erases to cut."""

    def __init__(self, seed, erases=False):
        self.accepted = {}
        self.cuts = Counter()
        self._erases = erases
        self._dice = random.Random(seed)

    def _end(self, most, longest):
        """Decides how a life ends: between two instructions, or at one of its first `most` flash operations, or at an
        erase, of which there are few. Returns what arranges that."""
        dice = self._dice
        seed = dice.random()
        if seed < 0.2:
            seconds = dice.uniform(0.02, 2 * longest)
            return lambda power: power.cut_in(seconds)
        how = dice.choice((*HOW, "torn"))
        count, kinds = (1, ("erase",)) if self._erases and seed < 0.5 else (dice.randint(1, most), KINDS)
        return lambda power: power.cut_at_operation(count, how, seed, kinds)

    def live(self, bench, task, flash, most, longest):
        """One life and its end, as _end() wants it, but not later than `longest` emulated seconds after its first
        message was accepted: each takes half a minute. Returns what the cut leaves in the flash."""
        plan = self._end(most, longest)

        async def life(board):
            plan(board.power)
            await board.until(lambda: board.power.cut or board.notes, _LIFE_S, "a message, or the power cut")
            board.power.cut_in(longest)
            await board.until(lambda: board.power.cut, _LIFE_S, "the power cut")
            return board.snapshot(), board.notes, board.power.cut

        return self._ended(*bench.copy(life, task, 2 * _LIFE_S, flash))

    def first(self, bench, task, flash, port, topic):
        """A life that ends when it was heard on `topic`. Returns what that leaves in the flash."""

        async def life(board):
            with Ear(port, topic, f"first{task}") as ear:  # here: the threads of a process are not copied
                await board.until(lambda: ear.heard, _LIFE_S, f"a message to {topic}")
            board.power.off("between operations")
            return board.snapshot(), board.notes, board.power.cut

        return self._ended(*bench.copy(life, task, 2 * _LIFE_S, flash))

    def last(self, bench, task, flash, port, topic, over=lambda ear: True):
        """A life that ends when messages of QoS 1 and of QoS 2 came to `topic` that it has published itself (order is
        kept at each level, so what waited before them has come), and over(ear) is true. What it accepted after those is
        still on its way, so nothing that it accepted is judged."""

        async def life(board):
            with Ear(port, topic, f"last{task}") as ear:

                def caught_up():
                    own = min((note >> 2 for note in board.notes), default=_NONE)
                    levels = {one.qos for one in list(ear.heard) if one.fields.get("seq", -1) >= own}
                    return levels >= {1, 2} and over(ear)

                await board.until(caught_up, _LIFE_S, "the end of the backlog")

        bench.copy(life, task, 2 * _LIFE_S, flash)

    def _ended(self, flash, notes, cut):
        self.cuts[cut] += 1
        self.accepted |= {note >> 2: note & 3 for note in notes}
        return flash


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
