"""Percentiles of the KLL sketches in the tables."""

from datasketches import kll_doubles_sketch

PERCENTILES = (0.5, 0.95, 0.99)


def percentiles(sketches):
    """PERCENTILES of what the sketches, bytes each, have together; None without any."""
    merged = None
    for one in sketches:
        one = kll_doubles_sketch.deserialize(one)
        if merged is None:
            merged = one
        else:
            merged.merge(one)
    return None if merged is None or merged.is_empty() else merged.get_quantiles(PERCENTILES, True)
