"""Steps, axes and reduced series: no count and no extreme is left out."""

import math
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from host_tests.tools.fleet.report import made_facts
from host_tests.tools.fleet.report.reading import read
from inflight_tools.fleet.report import render, scale, series
from inflight_tools.fleet.report.plots import silences
from inflight_tools.fleet.report.steps import MOST, steps

NONE = {"received": 0, "backlog": 0, "repeated": 0, "restarts": 0, "offline": 0, "dead_letters": 0, "gone": 0}


def line(*points, step=60):
    return {"step_s": step, "delay_s": step, "points": [{**NONE, "t": t, **counts} for t, counts in points]}


@pytest.mark.parametrize("minutes", (1, MOST - 1, MOST, MOST + 1, 1000, 100_000))
def test_steps_contain_all_points(minutes):
    found = steps(line(*((1_700_000_000 + 60 * n, {"received": n % 7, "offline": n % 3}) for n in range(minutes))))
    assert len(found.rows) <= MOST
    assert found.total("received") == sum(n % 7 for n in range(minutes))
    assert found.total("offline") == sum(n % 3 for n in range(minutes))
    assert found.start <= 1_700_000_000 and 1_700_000_000 + 60 * (minutes - 1) < found.end
    assert found.length % 60 == 0


def test_steps_that_are_missing_are_outages():
    found = steps(line((600, {"received": 5}), (960, {"received": 4}), (660, {"received": 1})))
    assert found.values("received") == [5, 1, 0, 0, 0, 0, 4]
    assert silences(found.values("received")) == [(2, 6)] and silences([1, 0, 2, 0, 0]) == [(1, 2), (3, 5)]
    assert silences([1]) == [] and steps(line()) is None


FINITE = st.sampled_from([0.0, 5e-324, 1e-300, 1.0, 1e100, 1.7e308, sys.float_info.max])
FINITE = FINITE | FINITE.map(lambda value: -value) | st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE, FINITE, FINITE)
@example(0.0, 5e-324, 0.0)
@example(17.3, 24.9, 20.0)
@example(101_200.0, 101_390.0, 101_300.0)
@example(-1.7e308, 1.7e308, 0.0)
@example(sys.float_info.max, sys.float_info.max, 1.0)
def test_an_axis_of_any_finite_numbers(one, other, third):
    low, middle, high = sorted((one, other, third))
    found = scale.ticks(low, high, 3)
    assert 2 <= len(found) <= 8 and all(map(math.isfinite, found))
    slack = 1e-8 * max(abs(low), abs(high)) + 1e-290
    assert found[0] <= low + slack and found[-1] >= high - slack
    up = scale.Scale(found[0], found[-1], 118, 10)
    assert 118.1 >= up(low) >= up(middle) >= up(high) >= 9.9


def test_thinned_series_keep_their_extremes():
    points = [[n, 20.0, 20.0 - n % 11, 20.0 + n % 13] for n in range(5000)]
    found = series.thin(series.drawable(points[::-1]), 50)
    assert len(found) <= 50
    assert min(point[2] for point in found) == 10 and max(point[3] for point in found) == 32
    assert [point[0] for point in found] == sorted(point[0] for point in found)


def test_a_point_far_from_all_others_in_time_is_left_out():
    points = [[n, 1, 1, 1] for n in range(100)]
    assert series.drawable([[-400 * 86_400, 1, 1, 1], *points, [86_400, 1, 1, 1]]) == points
    odd = [[1, math.nan, 1, 1], [2, 5, 4, None], [3, 5, 4, 6], [4, 1.7e308, 1, 1]]
    assert series.drawable(odd) == [[3, 5, 4, 6]]  # what is no number cannot be drawn
    assert series.drawable([[-1000, 1, 1, 1], *points])[0][0] == -1000 and len(series.drawable(points[:3])) == 3


@pytest.mark.parametrize("minutes", (4, 150, 1500))
def test_the_drawing_has_units_and_different_times(minutes):
    facts = made_facts.fleet(3, minutes=minutes)
    drawing = read(render(facts)).one("svg", class_="wide")
    assert drawing.one("text", class_="lane").text.startswith("messages per ")
    ticks = [tick.text for tick in drawing.all("text", class_="tick") if "data-t" in tick.attributes]
    assert 2 <= len(ticks) <= 10
    if minutes < 1440:  # beyond a day the same times have different dates
        assert len(set(ticks)) == len(ticks)
    outages = silences(steps(facts["timeline"]).values("received"))
    assert len(list(drawing.all("path", class_="outage"))) == len(outages)
