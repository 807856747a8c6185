"""Measurements as few enough points to draw: a page for a year is as small as one for a day."""

from . import plots
from .words import clip, known, reading, unit

MOST_CHARTS = 60  # of a device
BUDGET = 720  # points of all series of a page together
MOST, LEAST = 120, 24


def share(series):
    """How many points each of so many series may have."""
    return max(LEAST, min(MOST, BUDGET // max(series, 1)))


def thin(points, most):
    """[[t, mean, min, max], ...] in the order of time, at most so many; of points that fall together the mean, the
    least and the greatest. What is no number is left out: it cannot be drawn, and count tells of it."""
    good = sorted(list(point) for point in points if all(map(known, point)))
    if len(good) <= most:
        return good
    start, span = good[0][0], (good[-1][0] - good[0][0]) or 1
    groups = {}
    for point in good:
        groups.setdefault(min(int((point[0] - start) / span * most), most - 1), []).append(point)
    return [_together(group) for _, group in sorted(groups.items())]


def _together(group):
    times, means, least, greatest = zip(*group, strict=True)
    return [sum(times) / len(times), sum(means) / len(means), min(least), max(greatest)]


def charts(measurements):
    """{device: [chart, ...]} of the devices that have any."""
    measured = {device: found[:MOST_CHARTS] for device, found in measurements.items() if found}
    most = share(sum(map(len, measured.values())))
    return {
        device: [_chart(f"m{n}-{m}", device, one, most) for m, one in enumerate(found)]
        for n, (device, found) in enumerate(measured.items())
    }


def _chart(identity, device, one, most):
    """A drawing of one measurement, and `read`, from which the page's script reads its values off."""
    label, of = clip(one["name"], 60), clip(unit(one["unit"]), 16)
    stats = " · ".join(f"{key}\u00a0{reading(one[key])}" for key in ("min", "p50", "mean", "p95", "max"))
    chart = {"identity": identity, "label": label, "unit": of, "stats": stats, "count": one["count"], "read": None}
    thinned = thin(one["points"], most)
    if thinned:
        start = round(thinned[0][0])
        points = [[round(t - start), *(float(f"{value:.5g}") for value in rest)] for t, *rest in thinned]
        described = f"{label} of {clip(device, 64)} in {of or 'no unit'}: {stats}."
        chart["read"] = {"t": start, "unit": of, "p": points}
        chart["drawing"] = plots.band(identity, thinned, f"{label}, {of}", described)
    return chart
