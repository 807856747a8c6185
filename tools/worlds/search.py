"""Breadth-first search through the states of worlds. A life of the device, from a start up to the power cuts in it, is
explored at once; lives that begin after as many cuts are independent, and can have a process each."""

from collections import Counter, namedtuple
from functools import lru_cache
from itertools import count

from tools.worlds.world import Model, Off, Violation

# What was found: keys of states; how many transitions, cuts, and states that were settled; how many actions followed each
# other at most; a Violation or None. Life has also the states without power that it leads to.
Found = namedtuple("Found", "states count depth violation")
Life = namedtuple("Life", "states count depth off violation")

_model = lru_cache(None)(Model)


def explore(worlds, run=map):
    """Explores all states of these Worlds, up to the first Violation. run: map(), or one that uses several processes."""
    states, counts, depth = set(), Counter(), 0
    lives = [(world, None) for world in worlds]
    while lives:
        following = {}
        for (world, _), life in zip(lives, run(explore_life, lives), strict=True):
            states |= life.states
            counts += life.count
            depth = max(depth, life.depth)
            if life.violation:
                return Found(states, counts, depth, life.violation)
            for state in life.off:
                following.setdefault((world, state.key), (world, state))
        lives = [*following.values()]
    return Found(states, counts, depth, None)


def explore_life(job):
    """job: a World, and the Off with which the life begins (None: the first one). Returns a Life."""
    world, begin = job
    model = _model(world)
    bound = world.after if begin else None
    frontier = [begin or model.first]
    depth = frontier[0].path.depth
    states, off, counts = {(world, frontier[0].key)}, {}, Counter()
    try:
        for layer in count():
            following = []
            for state in frontier:
                complete = True
                for successor in model.successors(state) if bound is None or layer <= bound else ():
                    counts["transitions"] += 1
                    if isinstance(successor, Off):
                        counts["cuts"] += 1
                        off.setdefault(successor.key, successor)
                        continue
                    complete = complete and successor.key == state.key
                    if (world, successor.key) not in states:
                        states.add((world, successor.key))
                        following.append(successor)
                if complete:
                    counts["settled"] += 1
                    model.settle(state)
            if not following:
                break
            frontier = following
        return Life(states, counts, depth + layer, [*off.values()], None)
    except Violation as violation:
        return Life(states, counts, violation.path.depth, [], violation)
