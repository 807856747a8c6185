"""When the power of an emulated board goes: at an operation of its flash."""

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
