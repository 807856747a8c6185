"""Measurements, reduced to a limited number of points: a page about a year is as small as one about a day."""

from . import plots
from .words import clip, known, reading, unit

MOST_CHARTS = 60  # for one device
BUDGET = 720  # points of all series of a page together
MOST, LEAST = 120, 24  # points of one series
_MB = 1e6
_LEAST, _APART = 20, 20  # so many points, so many times as long as the others
_LARGEST, _SMALLEST = 1e100, 1e-100  # what can be drawn; senml.LARGEST is the largest that is read


def share(series):
    """The number of points for each of `series` series."""
    return max(LEAST, min(MOST, BUDGET // max(series, 1)))


def drawable(points):
    """The points [t, mean, min, max] that can be drawn, sorted by time. NaN, infinity and numbers near it cannot. Nor
    are one or two drawn that are far from all others in time: a clock was wrong."""
    good = [point for point in points if all(known(value) and abs(value) <= _LARGEST for value in point)]
    good = sorted([t, *(value if abs(value) >= _SMALLEST else 0.0 for value in rest)] for t, *rest in good)
    if len(good) < _LEAST:
        return good
    first, last = good[1][0], good[-2][0]
    length = last - first
    if length * _APART >= good[-1][0] - good[0][0]:
        return good
    return [point for point in good if first - length <= point[0] <= last + length]


def thin(points, most):
    """Returns at most `most` points, from the points of drawable(). Neighbours are merged: mean, minimum, maximum."""
    if len(points) <= most:
        return points
    start, span = points[0][0], (points[-1][0] - points[0][0]) or 1
    groups = {}
    for point in points:
        groups.setdefault(min(int((point[0] - start) / span * most), most - 1), []).append(point)
    return [_merge(group) for _, group in sorted(groups.items())]


def _merge(group):
    times, means, lows, highs = zip(*group, strict=True)
    return [sum(times) / len(times), sum(means) / len(means), min(lows), max(highs)]


def charts(measurements):
    """{device: [chart, ...]} of the devices that have measurements."""
    measured = {device: found[:MOST_CHARTS] for device, found in measurements.items() if found}
    most = share(sum(map(len, measured.values())))
    return {
        device: [_chart(f"m{n}-{m}", device, one, most) for m, one in enumerate(found)]
        for n, (device, found) in enumerate(measured.items())
    }


def _readable(one):
    """Bytes in MB, if there are many."""
    if one["unit"] != "B" or not known(one["max"]) or one["max"] < _MB:
        return one
    values = {key: one[key] / _MB for key in ("min", "p50", "mean", "p95", "max")}
    return one | values | {"unit": "MB", "points": [[t, *(n / _MB for n in rest)] for t, *rest in one["points"]]}


def _chart(identity, device, one, most):
    """A drawing of one measurement. `read` has its values for the page's script."""
    one = _readable(one)
    label, of = clip(one["name"], 60), clip(unit(one["unit"]), 16)
    stats = " · ".join(f"{key}\u00a0{reading(one[key])}" for key in ("min", "p50", "mean", "p95", "max"))
    points = drawable(one["points"])
    chart = {"identity": identity, "label": label, "unit": of, "stats": stats, "count": one["count"], "read": None}
    chart["left_out"] = len(one["points"]) - len(points)
    described = f"{label} of {clip(device, 64)}{of and ' in ' + of}: {stats}."
    try:
        return chart | _drawing(identity, thin(points, most), of, f"{label}{of and ', ' + of}", described)
    except (ArithmeticError, ValueError):  # whatever a device measures, the other charts are drawn
        return chart


def _drawing(identity, points, of, title, described):
    """Of a chart, what `points` add; nothing without any."""
    if not points:
        return {}
    start = round(points[0][0])
    read = [[round(t - start), *(float(f"{value:.5g}") for value in rest)] for t, *rest in points]
    drawing = plots.band(identity, points, title, described)
    return {"read": {"t": start, "unit": of, "p": read}, "drawing": drawing}
