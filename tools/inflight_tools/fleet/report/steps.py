"""The timeline, divided into steps. A step without a message is a step, too."""

import math
from dataclasses import dataclass

from .words import known

MOST = 120
COUNTS = ("received", "backlog", "restarts", "offline", "repeated", "dead_letters", "gone")
_LENGTHS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)


@dataclass
class Steps:
    start: float
    length: float
    rows: list  # a dict of counts for each step

    @property
    def end(self):
        return self.start + self.length * len(self.rows)

    def values(self, name):
        return [row[name] for row in self.rows]

    def total(self, name):
        return sum(self.values(name))


def steps(timeline):
    """Returns the Steps of the facts' points, or None if there are no points."""
    points = [point for point in timeline["points"] if known(point["t"])]
    if not points:
        return None
    unit = max(timeline["step_s"], 1)
    first, last = (pick(point["t"] for point in points) for pick in (min, max))
    needed = ((last - first) / unit + 1) / MOST  # so many points make a step: a round number if one is large enough
    length = unit * next((n for n in _LENGTHS if n >= needed), math.ceil(needed))
    rows = [dict.fromkeys(COUNTS, 0) for _ in range(math.floor((last - first) / length) + 1)]
    for point in points:
        row = rows[math.floor((point["t"] - first) / length)]
        for name in COUNTS:
            row[name] += point[name] or 0
    return Steps(first, length, rows)
