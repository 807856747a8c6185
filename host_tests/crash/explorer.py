"""Cuts the power of a script at every operation of its flash, and again while the device recovers, and once more.

A script is recorded once: the flash and what had been promised before each operation. A cut puts that back, spoils the
operation in some way, and lets the device start from there."""

import random
from collections import Counter, namedtuple

import nor
from host_tests.crash.wired import aged
from host_tests.crash.world import STUMBLES, World
from host_tests.cutting import Tape, cut

_ROT = 0.1  # of the operations
_STUMBLING = 0.04  # the same: each takes a whole script
_DEEPEST = 4  # cuts of one device, each during the recovery from the one before
_MASKS = (0xFF, 0xA5, 0x5A, 0x0F, 0xF0, 0x01, 0x80, 0x7F, 0xFE, 0)


class Found(Exception):
    """A counterexample: `cuts` lead to `error`."""

    def __init__(self, error, cuts):
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error
        self.cuts = cuts


# --- the ways of cutting, as data ---
#
# "lost" and a number: the operation has not begun, and of those before it that were not synced some are lost.
# "rot" and a number: nor has it here, and then a bit flips in what is programmed.
# STUMBLES: no cut at all; World tells them.


def how(way):
    """The function of (old, new) that `way` means: the name of a function of nor or here, and numbers. Places are
    counted among the bytes that change."""
    name, *numbers = way
    if name in ("lost", "rot"):
        return nor.before
    if name in ("torn", "suffix"):
        index, mask = numbers
        return lambda old, new: getattr(nor, name)(_place(old, new, index), mask)(old, new)
    if name in ("scattered", "mixed"):
        return getattr(nor, name)(*numbers)
    return {"fading": _fading, "wild": _wild}[name](*numbers) if numbers else getattr(nor, name)


def lost(way):
    """Which of the operations that were not synced are lost, None: none."""
    return way[1] if way[0] == "lost" else None


def _place(old, new, index):
    places = [i for i in range(len(old)) if old[i] != new[i]] or [0]
    return places[index % len(places)]


def _fading(seed):
    # An erase programs everything to zero first.
    return lambda old, new: bytes(o & r for o, r in zip(old, nor.noise(seed), strict=False))


def _wild(seed):
    # It then lets go of the zeros, each cell in its own time.
    return lambda old, new: bytes(r & 0xFF for _, r in zip(old, nor.noise(seed), strict=False))


def every_way(operation):
    """All bytes of an operation, one after the other."""
    changed = sum(o != n for o, n in zip(operation.old, operation.new, strict=True))
    yield ["before"]
    yield ["after"]
    for i in range(changed):
        yield ["suffix" if i % 3 == 0 else "torn", i, _MASKS[i % len(_MASKS)]]
    for seed in range(3):
        yield from (["scattered", seed], ["mixed", seed])
        if operation.unsynced:
            yield ["lost", seed]
        yield ["rot", seed * 1009]
    if operation.name == "erase":
        yield from (["zeros"], ["fading", 1], ["wild", 1])


def some_way(operation, dice):
    """One way of cutting a "program" or an "erase"."""
    names = ["torn", "suffix", "scattered", "mixed", "after", "lost"]
    if operation == "erase":
        names += ["zeros", "fading", "wild", "before", "mixed"]
    name = dice.choice(names)
    if name in ("torn", "suffix"):
        return [name, dice.randrange(4096), dice.choice(_MASKS)]
    return [name] if name in ("after", "before", "zeros") else [name, dice.randrange(1000)]


# --- exploration ---

# A cut that showed something: it is tried at all operations, or near its own if it struck a recovery.
Focus = namedtuple("Focus", "way arrive resume operation")
_NEAR = 2


class Explorer:
    """Explores scripts. `flash`: as for World. `count`: the cuts made, by what they struck."""

    def __init__(self, setup, steps, seed=0, ways=2, deepest=_DEEPEST, flash=aged):
        self.setup = setup
        self.steps = steps
        self.count = Counter()
        self._dice = random.Random(seed)
        self._ways = ways  # of cutting an operation, None: each byte of it
        self._deepest = deepest
        self._flash = flash
        self._world = self._most = None

    def explore(self, focus=None, most=None):
        """Raises Found. focus: a list of Focus, one for each cut; then these alone are made. most: cuts at most, here
        and there."""
        self._most = most
        self._walk(self.record(), [], focus)

    def record(self):
        """The operations of the script without a cut."""
        self._world = World(self.setup, self._flash)
        return self._taped([], lambda: self._world.play(self.steps))

    def _taped(self, cuts, run):
        tape = Tape(self._world.flash, self._world.state)
        try:
            run()
        except Exception as error:
            raise Found(error, cuts) from error
        return tape.stop()

    def _walk(self, operations, cuts, focus):
        for k, way, arrive, resume in self._choose(operations, len(cuts), focus):
            if self.count["cuts"] == self._most:
                return
            here = [*cuts, [k, way, arrive, resume]]
            again = self._live_on(here) if way[0] in STUMBLES else self._branch(operations[k], here)
            self._tell(operations[k], here)
            if len(here) < (len(focus) if focus else self._deepest):
                self._walk(again, here, focus)

    def _choose(self, operations, depth, focus):
        dice = self._dice
        if focus:
            way, arrive, resume, near = focus[depth]
            for k in range(len(operations)):
                if not depth or abs(k - near) <= _NEAR:
                    yield k, way, arrive, resume
        elif not depth:
            for k in dice.sample(range(len(operations)), len(operations)):
                for way in self._ways_of(operations[k]):
                    yield k, way, dice.choice((None, 0, 1)), dice.random() < 0.3
        else:
            for k in self._again(operations, depth):
                yield k, some_way(operations[k].name, dice), dice.choice((None, 0, 1)), dice.random() < 0.3

    def _again(self, operations, depth):
        # Where a recovery is cut: mounting does little, but it matters most. Not the mount that finds a record spoilt:
        # what is known of that stands nowhere else until its end.
        dice = self._dice
        if self._world.state.rotten:
            working = [k for k, operation in enumerate(operations) if operation.promised.phase != "mount"]
            if working and dice.random() < 0.3:
                yield dice.choice(working)
            return
        mounting = sum(operation.promised.phase == "mount" for operation in operations)
        if mounting and dice.random() < (0.3, 0.6, 0.6)[depth - 1]:
            yield dice.randrange(mounting)
        if operations and dice.random() < 0.15:
            yield dice.randrange(len(operations))

    def _ways_of(self, operation):
        if self._ways is None:
            return every_way(operation)
        dice = self._dice
        ways = [some_way(operation.name, dice) for _ in range(self._ways)]
        if dice.random() < _ROT:
            ways[0] = ["rot", dice.randrange(1 << 20)]
        elif dice.random() < _STUMBLING:
            ways[0] = [dice.choice(STUMBLES)]
        return ways

    def _branch(self, operation, cuts):
        """Lets the last of the cuts happen to this operation, and the device recover. Returns what that programs."""
        world = self._world
        _, way, arrive, resume = cuts[-1]

        def recover():
            world.peer.power_cut(arrive, lost(way) is not None)
            world.power_on()
            world.play(self.steps if resume else [])

        world.state = cut(world.flash, operation, how(way), lost(way))
        if way[0] == "rot":
            world.rot(way[1])
        return self._taped(cuts, recover)

    def _live_on(self, cuts):
        """The whole script, and an operation that fails in it."""
        k, way, _, _ = cuts[0]
        world = World(self.setup, self._flash)
        try:
            world.stumble(k, way[0], self.steps)
        except Exception as error:
            raise Found(error, cuts) from error
        return []

    def _tell(self, operation, cuts):
        way = cuts[-1][1]
        self.count["faults"] += way[0] in STUMBLES
        self.count["rot"] += way[0] == "rot"
        self.count["cuts"] += 1
        self.count[f"cut {len(cuts)}"] += 1
        self.count[operation.name] += 1
        self.count["within bytes"] += way[0] in ("torn", "suffix", "scattered", "mixed", "zeros", "fading", "wild")
        self.count["cache lost"] += way[0] == "lost"
        self.count[operation.promised.phase] += 1
        self.count[self._world.setup["granularity"]] += 1
        self.count["accepted"] += len(self._world.peer.out.accepted)
