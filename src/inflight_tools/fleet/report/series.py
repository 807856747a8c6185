"""Measurements as few enough points to draw: a page for a year is as small as one for a day."""

from .markup import known

BUDGET = 720  # points of all series of a page together
MOST, LEAST = 120, 24


def share(series):
    """How many points each of so many series may have."""
    return max(LEAST, min(MOST, BUDGET // max(series, 1)))


def thin(points, most):
    """[[t, mean, min, max], ...] in the order of time, at most so many; of points that fall together the mean, the
    least and the greatest. What is no number is left out: it cannot be drawn, and count tells of it."""
    good = sorted(list(point) for point in points if all(known(value) is not None for value in point))
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
