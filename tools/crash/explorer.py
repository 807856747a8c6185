"""Cuts the power at the flash operations of a script, and up to three times more during the recovery.

A script is recorded once, with a snapshot of the flash and of the simulation's state before each operation. A cut
restores such a snapshot, completes the operation in part, and restarts the device."""

import random
from collections import Counter, namedtuple

from faults import ERASING, MASKS, WITHIN, Tape, cache_seed, cut
from tools.crash.device import aged
from tools.crash.simulation import FAULTS, Simulation

MOUNTS = ("mount", "recovery")  # phases of a Simulation
_ROT = 0.1  # share of the operations that get a bit flip
_FAULTY = 0.04  # share of the operations that fail; few, as each replays the whole script
_DEEPEST = 4  # cuts in a row, each during the recovery from the one before


class Counterexample(Exception):
    """`cuts` lead to `error`."""

    def __init__(self, error, cuts):
        super().__init__(f"{type(error).__name__}: {error}")
        self.error = error
        self.cuts = cuts


def some_way(operation, rng, undecided=0):
    """A random way of cutting a "program" or an "erase". undecided: the share of cuts that leave such bits."""
    if undecided and rng.random() < undecided:
        return ["undecided", rng.randrange(1 << 16)]
    names = ["torn", "suffix", "scattered", "mixed", "after", "lost"]
    if operation == "erase":
        names += [*ERASING, "before", "mixed"]
    name = rng.choice(names)
    if name in ("torn", "suffix"):
        return [name, rng.randrange(4096), rng.choice(MASKS)]
    return [name] if name in ("after", "before", "zeros") else [name, rng.randrange(1000)]


# A cut to repeat: the first one at all operations, later ones at operations near `operation`.
Focus = namedtuple("Focus", "way arrive resume operation")
_NEAR = 2


class Explorer:
    """Explores one script. `flash`: as for Simulation. `undecided`: the share of cuts that leave undecided bits.
    `count`: statistics of the cuts."""

    def __init__(self, setup, steps, seed=0, ways=2, deepest=_DEEPEST, flash=aged, undecided=0):
        self.setup = setup
        self.steps = steps
        self.count = Counter()
        self._rng = random.Random(seed)
        self._ways = ways  # how many for each operation, or a function of an operation that yields them
        self._deepest = deepest
        self._flash = flash
        self._undecided = undecided
        self._simulation = self._max_cuts = None

    def explore(self, focus=None, most=None):
        """Raises Counterexample. focus: a list of Focus; only these cuts are made. most: how many cuts at most."""
        self._max_cuts = most
        self._walk(self.record(), [], focus)

    def record(self):
        """Plays the script without a cut, and returns its operations."""
        self._simulation = Simulation(self.setup, self._flash)
        return self._taped([], lambda: self._simulation.play(self.steps))

    def _taped(self, cuts, run):
        tape = Tape(self._simulation.flash, self._simulation.state)
        try:
            run()
        except Exception as error:
            raise Counterexample(error, cuts) from error
        return tape.stop()

    def _walk(self, operations, cuts, focus):
        for k, way, arrive, resume in self._choose(operations, len(cuts), focus):
            if self.count["cuts"] == self._max_cuts:
                return
            here = [*cuts, [k, way, arrive, resume]]
            again = self._inject_fault(here) if way[0] in FAULTS else self._branch(operations[k], here)
            self._tally(operations[k], here)
            if len(here) < (len(focus) if focus else self._deepest):
                self._walk(again, here, focus)

    def _choose(self, operations, depth, focus):
        rng = self._rng
        if focus:
            way, arrive, resume, near = focus[depth]
            for k, operation in enumerate(operations):
                possible = way[0] not in ERASING or operation.name == "erase"
                if possible and (not depth or abs(k - near) <= _NEAR):
                    yield k, way, arrive, resume
        elif not depth:
            for k in rng.sample(range(len(operations)), len(operations)):
                for way in self._ways_of(operations[k]):
                    yield k, way, rng.choice((None, 0, 1)), rng.random() < 0.3
        else:
            for k in self._recovery_cuts(operations, depth):
                way = some_way(operations[k].name, rng, self._undecided)
                yield k, way, rng.choice((None, 0, 1)), rng.random() < 0.3

    def _recovery_cuts(self, operations, depth):
        # A mount has few operations but is the most critical part, so it is cut more often. A mount that finds damage
        # is not cut: it knows of the damage only in RAM until it ends.
        rng = self._rng
        if self._simulation.state.bit_flipped:
            working = [k for k, operation in enumerate(operations) if operation.promised.phase != "mount"]
            if working and rng.random() < 0.3:
                yield rng.choice(working)
            return
        mounting = sum(operation.promised.phase == "mount" for operation in operations)
        if mounting and rng.random() < (0.3, 0.6, 0.6)[depth - 1]:
            yield rng.randrange(mounting)
        if operations and rng.random() < 0.15:
            yield rng.randrange(len(operations))

    def _ways_of(self, operation):
        if callable(self._ways):
            return self._ways(operation)
        rng = self._rng
        ways = [some_way(operation.name, rng, self._undecided) for _ in range(self._ways)]
        # A mount that passes by a worn page does not count what rots beside it; and a sector of two pages has no space
        # for what is damaged while it is copied: docs/limits.md.
        passes_by = self.setup.get("worn") and operation.promised.phase in MOUNTS
        pages = self.setup["size"] // int(self.setup["granularity"].rpartition("-")[2])
        if rng.random() < _ROT and not passes_by and pages > 2:
            ways[0] = ["rot", rng.randrange(1 << 20)]
        elif rng.random() < _FAULTY:
            ways[0] = [rng.choice(FAULTS)]
        return ways

    def _branch(self, operation, cuts):
        """Makes the last of the cuts at this operation, and restarts the device. Returns the operations of that."""
        simulation = self._simulation
        _, way, arrive, resume = cuts[-1]

        def recover():
            simulation.peer.power_cut(arrive, cache_seed(way) is not None)
            simulation.power_on()
            simulation.play(self.steps if resume else [])

        simulation.state = cut(simulation.flash, operation, way)
        if way[0] == "rot":
            simulation.rot(way[1])
        return self._taped(cuts, recover)

    def _inject_fault(self, cuts):
        """Plays the whole script; one of its operations fails."""
        k, way, _, _ = cuts[0]
        simulation = Simulation(self.setup, self._flash)
        try:
            simulation.inject_fault(k, way[0], self.steps)
        except Exception as error:
            raise Counterexample(error, cuts) from error
        return []

    def _tally(self, operation, cuts):
        way = cuts[-1][1]
        self.count["faults"] += way[0] in FAULTS
        self.count["rot"] += way[0] == "rot"
        self.count["cuts"] += 1
        self.count[f"cut {min(len(cuts), 3)}"] += 1
        self.count[operation.name] += 1
        self.count["within bytes"] += way[0] in WITHIN
        self.count["undecided"] += way[0] == "undecided"
        self.count["cache lost"] += way[0] == "lost"
        phase = operation.promised.phase
        self.count["mount" if phase in MOUNTS else phase] += 1
        self.count[self._simulation.setup["granularity"]] += 1
        self.count["accepted"] += len(self._simulation.peer.out.accepted)
