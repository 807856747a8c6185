"""Percentiles of sketches."""

import random

from host_tests.tools.fleet.without_spark import sketch
from inflight_tools.fleet.query.sketches import percentiles


def sketches(values, each):
    return [sketch(values[start : start + each]) for start in range(0, len(values), each)]


def test_two_reports_of_the_same_sketches_are_the_same():
    """Merging sketches throws dice."""
    made = sketches([random.Random(2).lognormvariate(0, 2) for _ in range(20_000)], 2000)
    assert percentiles(made) == percentiles(made)


def test_many_sketches(monkeypatch):
    monkeypatch.setattr("inflight_tools.fleet.query.sketches._MOST", 3)
    values = list(range(1, 10_001))
    random.Random(3).shuffle(values)
    for found, exact in zip(percentiles(sketches(values, 100)), (5000, 9500, 9900), strict=True):
        assert abs(found - exact) < 0.03 * len(values)
