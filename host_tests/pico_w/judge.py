"""Power cuts of a board: records accepted messages, and finds lost and duplicated ones."""

import random
import time
from collections import Counter

from dev.pico_w.power import HOW, KINDS
from dev.pico_w.subscriber import Subscriber

_LIFE_S = 600
_NONE = 1 << 30


class Cuts:
    """A chain of runs of one board, each ended by a power cut and continued with its flash. accepted: {sequence
    number: QoS} of messages for which publish() returned. cuts: how many, by kind. erases: the journal has wrapped
    around, so that there are erases to cut."""

    def __init__(self, seed, erases=False):
        self.accepted = {}
        self.cuts = Counter()
        self._erases = erases
        self._dice = random.Random(seed)

    def _end(self, most, longest):
        """Decides how a run ends: between two instructions, at one of its first `most` flash operations, or at an
        erase, of which there are few. Returns a function that prepares that."""
        dice = self._dice
        seed = dice.random()
        if seed < 0.2:
            seconds = dice.uniform(0.02, 2 * longest)
            return lambda power: power.cut_in(seconds)
        how = dice.choice((*HOW, "torn"))
        count, kinds = (1, ("erase",)) if self._erases and seed < 0.5 else (dice.randint(1, most), KINDS)
        return lambda power: power.cut_at_operation(count, how, seed, kinds)

    def live(self, bench, task, flash, most, longest):
        """One run of the board until a power cut as _end() chooses it, at most `longest` emulated seconds after its
        first accepted message: each takes half a minute. Returns the flash after the cut."""
        plan = self._end(most, longest)

        async def life(board):
            plan(board.power)
            await board.until(lambda: board.power.cut or board.notes, _LIFE_S, "a message, or the power cut")
            board.power.cut_in(longest)
            await board.until(lambda: board.power.cut, _LIFE_S, "the power cut")
            return board.snapshot(), board.notes, board.power.cut

        return self._ended(*bench.copy(life, task, 2 * _LIFE_S, flash))

    def first(self, bench, task, flash, port, topic):
        """The board runs until a message arrived at `topic`. Returns the flash."""

        async def life(board):
            with Subscriber(port, topic, f"first{task}") as subscriber:  # here: the threads of a process are not copied
                await board.until(lambda: subscriber.messages, _LIFE_S, f"a message to {topic}")
            board.power.off("between operations")
            return board.snapshot(), board.notes, board.power.cut

        return self._ended(*bench.copy(life, task, 2 * _LIFE_S, flash))

    def last(self, bench, task, flash, port, topic, over=lambda subscriber: True):
        """The board runs until QoS 1 and QoS 2 messages of this run arrived at `topic` (so earlier ones of the same
        QoS have arrived too), and over(subscriber) is true. Messages accepted in this run may still be in flight, and
        are not judged."""

        async def life(board):
            with Subscriber(port, topic, f"last{task}") as subscriber:

                def caught_up():
                    own = min((note >> 2 for note in board.notes), default=_NONE)
                    levels = {one.qos for one in list(subscriber.messages) if one.fields.get("seq", -1) >= own}
                    return levels >= {1, 2} and over(subscriber)

                await board.until(caught_up, _LIFE_S, "the end of the backlog")

        bench.copy(life, task, 2 * _LIFE_S, flash)

    def _ended(self, flash, notes, cut):
        self.cuts[cut] += 1
        self.accepted |= {note >> 2: note & 3 for note in notes}
        return flash


def judge(cuts, delivered):
    """Returns (lost, doubled): sequence numbers that were accepted and not delivered, and those of QoS 2 delivered
    twice. delivered() returns all messages so far."""
    lost, doubled = _judge(cuts, delivered())
    end = time.monotonic() + 20  # what the broker delivered last is on its way
    while lost and time.monotonic() < end:
        time.sleep(0.1)
        lost, doubled = _judge(cuts, delivered())
    return lost, doubled


def _judge(cuts, delivered):
    times = Counter((one.fields["seq"], one.qos) for one in delivered if "seq" in one.fields)
    lost = set(cuts.accepted.items()) - set(times)
    return sorted(lost), sorted(seq for (seq, qos), n in times.items() if qos == 2 and n > 1)
