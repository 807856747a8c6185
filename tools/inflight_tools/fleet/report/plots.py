"""Drawings: the coordinates of lines and texts. templates/macros.html makes SVG of them; page.css has the colours.
Each series has a shape or a pattern of its own, so nobody needs to distinguish colours."""

import itertools

from . import scale
from .scale import Scale, short
from .words import count, duration, reading, utc

_LEFT, _RIGHT = 46, 10
_MARKS = (  # rows of marks under the timeline: count, shape, text for one, text for several
    ("restarts", "triangle", "restart", "restarts (power cuts and others)"),
    ("offline", "square", "device gone offline", "devices gone offline"),
    ("repeated", "diamond", "repetition removed", "repetitions removed"),
    ("dead_letters", "cross", "dead letter", "dead letters"),
    ("gone", "bar", "message lost or given up", "messages lost or given up"),
)


class Drawing:
    """`title` and `description` are for screen readers."""

    def __init__(self, identity, title, description, form, left, width):
        self.identity, self.title, self.description, self.form = identity, title, description, form
        self.left, self.right, self.width = left, width - _RIGHT, width
        self.paths = []  # (class, path data, width of the line or "")
        self.texts = []  # (class, x, y, text)

    def path(self, class_, data, width=""):
        self.paths.append((class_, data, width))

    def text(self, class_, x, y, text):
        self.texts.append((class_, short(x), short(y), text))

    def value_axis(self, values, up):
        self.path("grid", "".join(f"M{self.left} {short(up(value))}H{self.right}" for value in values))
        for value in values:
            self.text("value", self.left - 6, up(value) + 4, reading(value))

    def time_axis(self, across, end, top, bottom, most):
        """Draws lines and times, with a date where the day changes."""
        self.height, self.y = bottom + 34, (bottom + 15, bottom + 29)
        self.exact = end - across.low < 60 * most
        self.times = []  # (x, seconds, time, date)
        day = None
        for t in scale.time_ticks(across.low, end, most):
            date = utc(t, "%m-%d")
            time = utc(t, "%H:%M:%S" if self.exact else "%H:%M")
            self.times.append((short(across(t)), short(t), time, "" if date == day else date))
            day = date
        self.path("grid", "".join(f"M{x} {top}V{bottom}" for x, *_ in self.times))


def _bars(bases, tops, steps, across, up):
    """(path data, line width): bars from base to top, drawn as thick lines of one path."""
    width = max(across(steps.length) - across(0) - 0.6, 0.8)
    bars = (
        f"M{short(across(steps.start + (n + 0.5) * steps.length))} {short(up(base))}V{short(up(top))}"
        for n, (base, top) in enumerate(zip(bases, tops, strict=True))
        if top > base
    )
    return "".join(bars), short(width)


def silences(received):
    """[(first, end), ...]: each run of steps without a message."""
    runs = itertools.groupby(range(len(received)), lambda n: bool(received[n]))
    silent = [list(run) for heard, run in runs if not heard]
    return [(run[0], run[-1] + 1) for run in silent]


def _marks(steps, name, shape, across, y):
    parts = []
    for n, happened in enumerate(steps.values(name)):
        if happened:
            size = 3 if happened == 1 else 4 if happened < 5 else 5.5
            x = round(across(steps.start + (n + 0.5) * steps.length))
            parts.append(_SHAPES[shape](x, y, size))
    return "".join(parts)


_SHAPES = {
    "triangle": lambda x, y, r: f"M{short(x)} {short(y - r)}l{r} {short(2 * r)}h{-2 * r}z",
    "diamond": lambda x, y, r: f"M{short(x)} {short(y - r)}l{r} {r}l{-r} {r}l{-r} {-r}z",
    "square": lambda x, y, r: f"M{short(x - r)} {short(y - r)}h{2 * r}v{2 * r}h{-2 * r}z",
    "bar": lambda x, y, r: f"M{short(x)} {short(y - r)}v{2 * r}",
    "cross": lambda x, y, r: f"M{short(x - r)} {short(y - r)}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}",
}


def timeline(steps, width, identity):
    """Received messages, and below them restarts and other events, over time."""
    narrow = width < 600
    drawing = Drawing(identity, "Timeline", describe(steps), "narrow" if narrow else "wide", _LEFT, width)
    top, bottom = 26, 150 if narrow else 176
    across = Scale(steps.start, steps.end, _LEFT, drawing.right)
    received, backlog = steps.values("received"), steps.values("backlog")
    values = scale.whole_ticks(max(received))
    up = Scale(0, values[-1], bottom, top)
    live = [all_ - late for all_, late in zip(received, backlog, strict=True)]
    drawing.text("lane", 0, 12, "messages per " + duration(steps.length).removeprefix("1\u00a0"))
    for ends in silences(received):
        left, right = (across(steps.start + n * steps.length) for n in ends)
        drawing.path("outage", f"M{short(left)} {top}H{short(right)}V{bottom}H{short(left)}z")
        if right - left > 96:
            drawing.text("within", (left + right) / 2, (top + bottom) / 2, "nothing received")
    drawing.value_axis(values, up)
    drawing.path("live", *_bars([0] * len(live), live, steps, across, up))
    drawing.path("backlog", *_bars(live, received, steps, across, up))
    y = bottom + 26
    for name, shape, one, several in _MARKS:
        if total := steps.total(name):
            drawing.text("lane", 0, y, count(total, one, several))
            drawing.path(f"mark {shape}", _marks(steps, name, shape, across, y + 15))
            y += 43
    drawing.time_axis(across, steps.end, bottom, y - 16, 4 if narrow else 9)
    drawing.path("cursor", f"M0 {top}V{y - 16}")
    return drawing


def describe(steps):
    """The timeline as text."""
    parts = [
        f"{count(steps.total('received'), 'message')} received from {utc(steps.start)} to {utc(steps.end)} UTC,"
        f" in steps of {duration(steps.length)}, {steps.total('backlog'):,} of them backlog",
        count(steps.total("restarts"), "restart"),
        count(steps.total("repeated"), "repetition") + " removed",
        count(steps.total("dead_letters"), "dead letter"),
        count(steps.total("gone"), "message") + " lost or given up",
        count(len(silences(steps.values("received"))), "period") + " without a message",
        f"devices gone offline {count(steps.total('offline'), 'time')}",
    ]
    return "; ".join(parts) + "."


_WIDTH, _TOP, _BOTTOM = 360, 10, 118


def band(identity, points, title, description):
    """One measurement: a line of its means, and a band from minimum to maximum. Both have gaps where no value came."""
    start, end = points[0][0], points[-1][0]
    if start == end:  # one point: in the middle of a minute
        start, end = start - 30, end + 30
    values = scale.ticks(min(point[2] for point in points), max(point[3] for point in points), 3)
    left = round(12 + 6.6 * max(len(reading(value)) for value in values))
    drawing = Drawing(identity, title, description, "", left, _WIDTH)
    across = Scale(start, end, left, drawing.right)
    up = Scale(values[0], values[-1], _BOTTOM, _TOP)
    lines, areas = [], []
    for run in _runs(points):
        mean = [(across(t), up(value)) for t, value, _, _ in run]
        ends = [(across(t), up(high)) for t, _, _, high in run] + [(across(t), up(low)) for t, _, low, _ in run[::-1]]
        if len(run) == 1:  # a single point has no length: draw it 3 units wide
            (x, y), (_, high), (_, low) = mean[0], ends[0], ends[1]
            mean = [(x - 1.5, y), (x + 1.5, y)]
            ends = [(x - 1.5, high), (x + 1.5, high), (x + 1.5, low), (x - 1.5, low)]
        lines.append(_path(mean))
        areas.append(_path(ends) + "z")
    drawing.value_axis(values, up)
    drawing.path("band", "".join(areas))
    drawing.path("mean", "".join(lines))
    drawing.time_axis(across, end, _TOP, _BOTTOM, 4)
    drawing.path("cursor", f"M0 {_TOP}V{_BOTTOM}")
    return drawing


def _path(points):
    """SVG path data of a line through `points`. Relative coordinates make it half as long as absolute ones."""
    rounded = [(round(x), round(y, 1)) for x, y in points]
    path = f"M{rounded[0][0]} {short(rounded[0][1])}"
    for (x, y), (x_before, y_before) in zip(rounded[1:], rounded, strict=False):
        dy = short(y - y_before)
        path += f"l{x - x_before}{'' if dy.startswith('-') else ' '}{dy}"
    return path


def _runs(points):
    """Runs of points without a gap. A gap is longer than three times the median distance."""
    distances = sorted(after[0] - before[0] for before, after in zip(points, points[1:], strict=False))
    usual = distances[len(distances) // 2] if distances else 0
    run = [points[0]]
    for point in points[1:]:
        if point[0] - run[-1][0] > 3 * usual:
            yield run
            run = []
        run.append(point)
    yield run
