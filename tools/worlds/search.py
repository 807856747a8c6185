"""Breadth-first search through the states of a world. A life of the device, from a start up to the power cuts in it, is
explored at once; lives that begin after as many cuts are independent, and can have a process each."""

from collections import Counter
from functools import lru_cache
from itertools import count

from tools.worlds.world import Model, Off

model = lru_cache(None)(Model)


def explore(world, run=map):
    """Explores all states of a World. Returns a Counter: states, transitions, cuts, settled (states from which all was
    completed), and depth (actions that follow each other). Raises the first Violation. run: map(), or one that uses
    several processes."""
    found = Counter(depth=0)
    states = set()
    lives = [(world, None)]
    while lives:
        following = {}
        for life, depth, keys, off in run(explore_life, lives):
            states |= keys
            found += life
            found["depth"] = max(found["depth"], depth)
            for state in off:
                following.setdefault(state.key, state)
        lives = [(world, state) for state in following.values()]
    found["states"] = len(states)
    return found


def explore_life(job):
    """job: a World, and the Off with which the life begins (None: its first one). Returns what it counted, the depth,
    the keys of its states, and the Offs to which it leads."""
    world, begin = job
    player = model(world)
    bound = world.after if begin else None
    frontier = [begin or player.first]
    depth = frontier[0].path.depth
    states, off, found = {frontier[0].key}, {}, Counter()
    for layer in count():
        following = []
        for state in frontier:
            complete = True
            for successor in player.successors(state) if bound is None or layer <= bound else ():
                found["transitions"] += 1
                if isinstance(successor, Off):
                    found["cuts"] += 1
                    off.setdefault(successor.key, successor)
                    continue
                complete = complete and successor.key == state.key
                if successor.key not in states:
                    states.add(successor.key)
                    following.append(successor)
            if complete:  # or at the bound
                found["settled"] += 1
                player.settle(state)
        if not following:
            return found, depth + layer, states, [*off.values()]
        frontier = following
