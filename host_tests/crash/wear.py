"""A device that lives long: messages without end, power cuts among them or not, and how evenly its sectors wear."""

import random

from explorer import how, some_way
from nor import PowerCut
from world import World

_SETUP = {"sectors": 5, "size": 1024, "age": 0, "max_inflight": 4}


class Life:
    """One device on flash of this granularity. `cuts`: how often its power went."""

    def __init__(self, granularity, seed, interrupted):
        self._dice = random.Random(seed)
        self._world = World({**_SETUP, "granularity": granularity})
        self._interrupted = interrupted
        self.cuts = 0

    def live(self, erases):
        """Until each sector has been erased so often, on average. Returns by how much the most or least worn differs
        from that, as a part of it."""
        flash = self._world.flash
        while sum(flash.erases) < erases * flash.blocks:
            self._day()
        mean = sum(flash.erases) / flash.blocks
        return max(abs(n - mean) for n in flash.erases) / mean

    def _day(self):
        world, dice = self._world, self._dice
        if self._interrupted:
            world.flash.cut_at(dice.randrange(300), self._spoil)
        try:
            if not world.device:
                world.power_on()
            for _ in range(dice.randrange(10, 60)):
                world.do(self._step())
            world.finish()
        except PowerCut:
            self.cuts += 1
            world.power_cut(dice.choice((None, 0, 1)))

    def _spoil(self, old, new):
        name = "erase" if len(new) == self._world.flash.block_size else "program"
        return how(some_way(name, self._dice))(old, new)

    def _step(self):
        dice = self._dice
        steps = [["publish", dice.randrange(200), dice.choice((1, 2)), 0]] * 6
        steps += [["connect"], ["drop", 1], ["give", 2, 20], ["give", 1, 9], ["up"], ["answer", dice.randrange(4)]]
        return dice.choice(steps)
