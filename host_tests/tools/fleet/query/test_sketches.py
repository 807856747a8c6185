"""Percentiles of sketches."""

import random

import pytest


def sketches(values, each):
    from datasketches import kll_doubles_sketch

    for start in range(0, len(values), each):
        made = kll_doubles_sketch(200)
        for value in values[start : start + each]:
            made.update(value)
        yield made.serialize()


@pytest.mark.parametrize("each", [1, 7, 150])
def test_of_small_sketches_they_are_exact(each):
    from inflight_tools.fleet.query.sketches import percentiles

    values = list(range(1, 1001))
    random.Random(1).shuffle(values)
    assert percentiles(sketches(values, each)) == [500, 950, 990]
    assert percentiles(sketches([3.5], 1)) == [3.5, 3.5, 3.5] and percentiles(()) is None


def test_two_reports_of_the_same_sketches_are_the_same():
    """Merging sketches throws dice."""
    from inflight_tools.fleet.query.sketches import percentiles

    made = list(sketches([random.Random(2).lognormvariate(0, 2) for _ in range(20_000)], 2000))
    assert percentiles(made) == percentiles(made)


def test_many_sketches(monkeypatch):
    from inflight_tools.fleet.query import sketches as module

    monkeypatch.setattr(module, "_MOST", 3)
    values = list(range(1, 10_001))
    random.Random(3).shuffle(values)
    for found, exact in zip(module.percentiles(sketches(values, 100)), (5000, 9500, 9900), strict=True):
        assert abs(found - exact) < 0.03 * len(values)
