"""Percentiles of the KLL sketches in the tables."""

import bisect
import itertools

from datasketches import kll_doubles_sketch

PERCENTILES = (0.5, 0.95, 0.99)
_MOST = 1000  # sketches whose values are compared; the others are merged into them, which is quicker and less exact


def percentiles(sketches):
    """PERCENTILES of all values in the sketches, bytes each; None without any."""
    kept = []
    for number, one in enumerate(map(kll_doubles_sketch.deserialize, sketches)):
        if number < _MOST:
            kept.append(one)
        else:
            kept[number % _MOST].merge(one)
    pairs = sorted(pair for one in kept for pair in one)  # (value, how many it stands for)
    if not pairs:
        return None
    sums = list(itertools.accumulate(weight for _, weight in pairs))
    return [pairs[bisect.bisect_left(sums, p * sums[-1])][0] for p in PERCENTILES]
