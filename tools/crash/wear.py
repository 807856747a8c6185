"""Endurance run of one device, with or without power cuts, that measures how evenly its sectors wear."""

import random

from faults import outcome
from nor import PowerCut
from tools.crash.explorer import some_way
from tools.crash.simulation import Simulation

_SETUP = {"sectors": 5, "size": 1024, "age": 0, "max_inflight": 4}


class Endurance:
    """One device on flash of this granularity. `cuts`: how many power cuts it had."""

    def __init__(self, granularity, seed, interrupted):
        self._rng = random.Random(seed)
        self._simulation = Simulation({**_SETUP, "granularity": granularity})
        self._interrupted = interrupted
        self.cuts = 0

    def run(self, erases):
        """Runs until each sector has been erased so often on average. Returns the largest deviation from the average,
        relative to it."""
        flash = self._simulation.flash
        while sum(flash.erases) < erases * flash.blocks:
            self._round()
        mean = sum(flash.erases) / flash.blocks
        return max(abs(n - mean) for n in flash.erases) / mean

    def _round(self):
        simulation, rng = self._simulation, self._rng
        lost = None
        if self._interrupted:
            lost = rng.choice((None, rng.randrange(1000)))
            simulation.flash.cut_at(rng.randrange(300), self._outcome, lost)
        try:
            if not simulation.device:
                simulation.power_on()
            for _ in range(rng.randrange(10, 60)):
                simulation.do(self._step())
            simulation.finish()
        except PowerCut:
            self.cuts += 1
            simulation.power_cut(rng.choice((None, 0, 1)), lost)

    def _outcome(self, old, new):
        name = "erase" if len(new) == self._simulation.flash.block_size else "program"
        return outcome(some_way(name, self._rng))(old, new)

    def _step(self):
        rng = self._rng
        steps = [["publish", rng.randrange(200), rng.choice((1, 2)), 0]] * 6
        steps += [["connect"], ["break", 1], ["incoming", 2, 20], ["incoming", 1, 9], ["arrive"]]
        steps.append(["receive", rng.randrange(4)])
        return rng.choice(steps)
