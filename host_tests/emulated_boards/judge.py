"""What was accepted, and what became of it: power cuts may neither lose nor double anything."""

import random
import time
from collections import Counter

from tools.emulators.power import HOW, KINDS
from tools.peers.subscriber import Subscriber

_LIFE_S = 600
_NONE = 1 << 30
MARKS = 0x3FFFFFF0  # numbers from here on note something else than a message:
READY, MOUNT, ASLEEP = 0x3FFFFFFF, 0x3FFFFFFE, 0x3FFFFFFD  # it has a journal, begins to mount it, begins to sleep
STARTS = {MARKS: "", MARKS + 1: "a", MARKS + 2: "b"}  # this application starts: that of no slot, or of one


class Cuts:
    """A chain of lives of one board, each ended by a power cut; every life goes on with the flash that the cut left.
    accepted: {sequence number: QoS} of what publish() returned for. reused: numbers that were accepted twice. cuts: how
    often, by kind and by what the board was about. erases: the journal has come round, so that there are erases to cut.
    """

    def __init__(self, seed, erases=False):
        self.accepted = {}
        self.reused = []
        self.cuts = Counter()
        self._erases = erases
        self._dice = random.Random(seed)

    def _end(self, most, longest):
        """Decides how a life ends: at any time, or at one of its first `most` flash operations, or at an erase, of
        which there are few. Returns what arranges that."""
        dice = self._dice
        seed = dice.random()
        if seed < 0.2:
            seconds = dice.uniform(0.02, 2 * longest)
            return lambda power: power.cut_in(seconds)
        how = dice.choice((*HOW, "torn"))
        count, kinds = (1, ("erase",)) if self._erases and seed < 0.5 else (dice.randint(1, most), KINDS)
        return lambda power: power.cut_at_operation(count, how, seed, kinds)

    def live(self, bench, task, flash, most, longest):
        """One life and its end, as _end() wants it, but not later than `longest` after its first message was accepted.
        Both are meant for a board that programs whole pages, and takes half a minute for a second of emulated time:
        bench.PARTS and bench.PACE say how many more it may be. Returns what the cut leaves in the flash."""
        longest *= bench.PACE
        plan = self._end(most * bench.PARTS, longest)

        async def life(board):
            plan(board.power)
            await board.until(lambda: board.power.cut or accepted(board.notes), _LIFE_S, "a message, or the power cut")
            await _cut_in(board, longest)

        return self._live(bench, task, flash, life)

    def live_until(self, bench, task, flash, note, longest):
        """One life, which ends at any time within `longest` seconds after the board has noted `note`."""
        seconds = self._dice.uniform(0, longest)

        async def life(board):
            await board.until(lambda: note in board.notes, _LIFE_S, "what it is cut after")
            await _cut_in(board, seconds)

        return self._live(bench, task, flash, life)

    def first(self, bench, task, flash, port, topic):
        """A life that ends when it was delivered on `topic`. Returns what that leaves in the flash."""

        async def life(board):
            with Subscriber(port, topic, f"first{task}") as subscriber:  # here: the threads of a process are not copied
                await board.until(lambda: subscriber.messages, _LIFE_S, f"a message to {topic}")
            board.power.off("between operations")

        return self._live(bench, task, flash, life)

    def _live(self, bench, task, flash, life):
        async def work(board):
            await life(board)
            return board.snapshot(), board.notes, board.power.cut

        flash, notes, cut = bench.copy(work, task, 2 * _LIFE_S, flash)
        self.ended(f"{cut}, {bench.phase(notes)}", notes)
        return flash

    def last(self, bench, task, flash, port, topic, over=lambda subscriber: True):
        """The board runs until QoS 1 and QoS 2 messages of this run arrived at `topic` (so earlier ones of the same
        QoS have arrived too), and over(subscriber) is true. Messages accepted in this run may still be in flight, and
        are not judged."""

        async def life(board):
            with Subscriber(port, topic, f"last{task}") as subscriber:

                def caught_up():
                    own = min((note >> 2 for note in accepted(board.notes)), default=_NONE)
                    levels = {one.qos for one in list(subscriber.messages) if one.fields.get("seq", -1) >= own}
                    return levels >= {1, 2} and over(subscriber)

                await board.until(caught_up, _LIFE_S, "the end of the backlog")

        bench.copy(life, task, 2 * _LIFE_S, flash)

    def ended(self, how, notes):
        """A life has ended `how`; its notes tell what was accepted."""
        self.cuts[how] += 1
        told = {note >> 2: note & 3 for note in accepted(notes)}
        self.reused += self.accepted.keys() & told.keys()
        self.accepted |= told


async def _cut_in(board, seconds):
    board.power.cut_in(seconds)
    await board.until(lambda: board.power.cut, _LIFE_S, "the power cut")


def accepted(notes):
    """Those notes that tell of a message."""
    return [note for note in notes if note < MARKS]


def judge(cuts, delivered, record_property):
    """Nothing is lost or doubled, and no number was given twice. delivered() returns all messages so far. Records the
    numbers of the run."""
    end = time.monotonic() + 20  # what the broker delivered last is on its way
    while (found := compare(cuts, delivered()))[0] and time.monotonic() < end:
        time.sleep(0.1)
    lost, doubled = found
    record_property("power cuts", dict(cuts.cuts))
    told = {"messages accepted": len(cuts.accepted), "delivered": len(delivered())}
    record_property("messages", told | {"lost": len(lost), "of QoS 2 doubled": len(doubled)})
    assert not lost and not doubled and not cuts.reused


def compare(cuts, delivered):
    """(lost, doubled) of the messages `delivered`: sequence numbers that were accepted and not delivered, and those of
    QoS 2 that were delivered twice."""
    times = Counter((one.fields["seq"], one.qos) for one in delivered if "seq" in one.fields)
    lost = set(cuts.accepted.items()) - set(times)
    return sorted(lost), sorted(seq for (seq, qos), n in times.items() if qos == 2 and n > 1)
