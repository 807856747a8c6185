"""The power of an emulated board, and when it goes: at an operation of its flash."""

import random

KINDS = ("program", "erase")
HOW = ("before", "torn", "after")


class Plan:
    """Power goes before or after the count-th operation of these kinds from now, or while it runs ("torn"): then the
    operation gets as far as `seed` says, to the bit."""

    def __init__(self, count, how, seed=0, kinds=KINDS):
        self.how = how
        self._left, self._kinds = count, kinds
        self._dice = random.Random(seed)

    def is_due(self, kind):
        """True at the operation that is the last. To be asked once at each."""
        if kind in self._kinds:
            self._left -= 1
            return not self._left
        return False

    def left_behind(self, old, new):
        """What the operation that is the last leaves of `old` content, which it would make `new`."""
        if self.how != "torn":
            return new if self.how == "after" else old
        # The chip works from one end to the other; the byte it was at has some of its bits done.
        changed = [i for i in range(len(old)) if old[i] != new[i]]
        if not changed:
            return new
        at = self._dice.choice(changed)
        done = self._dice.getrandbits(8)
        return new[:at] + bytes([new[at] & done | old[at] & ~done & 0xFF]) + old[at + 1 :]


class Power:
    """The power of one board until it goes. operations: (kind, address) of each flash operation so far. cut: how it
    went off, or None while it is on. on_operation(kind, address, old, new) is told of each, and what it changes.
    switch_off() ends the board."""

    def __init__(self, switch_off):
        self.operations = []
        self.cut = None
        self.on_operation = None
        self._switch_off = switch_off
        self._plan = None

    def cut_at_operation(self, *plan):
        """Power goes as Plan(*plan) says."""
        self._plan = Plan(*plan)

    def off(self, why="switched off"):
        """Power goes now. Returns True if it was on."""
        was_on = not self.cut
        if was_on:
            self.cut = why
            self._switch_off()
        return was_on

    def _operated(self, kind, start, old, new):
        """An operation has made `new` of `old` at `start`. If it is the last one: what it leaves there, else None."""
        self.operations.append((kind, start))
        if self.on_operation:
            self.on_operation(kind, start, old, new)
        if self._plan and self._plan.is_due(kind) and self.off(f"{kind} {self._plan.how}"):
            return self._plan.left_behind(old, new)
        return None
