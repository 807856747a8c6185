"""Drawings, as SVG whose colours and lines are classes of page.css. Each series has a shape or a pattern besides its
colour, so that nobody needs to tell colours apart."""

from . import scale
from .markup import Html, join, tag
from .scale import Scale, short
from .words import count, duration, reading, utc

_LEFT, _RIGHT = 46, 10
_MARKS = (  # rows of marks under the timeline: what, its shape, its words
    ("restarts", "triangle", "restart", "restarts (power cuts and others)"),
    ("offline", "square", "device gone offline", "devices gone offline"),
    ("repeated", "diamond", "repetition removed", "repetitions removed"),
    ("dead_letters", "cross", "dead letter", "dead letters"),
)


def text(x, y, words, class_=None, **attributes):
    return tag("text", words, x=short(x), y=short(y), class_=class_, **attributes)


def path(d, class_, width=None):
    thick = f' stroke-width="{short(width)}"' if width else ""
    return Html(f'<path class="{class_}" d="{d}"{thick}/>')


def svg(identity, width, height, title, description, *children, **attributes):
    """A drawing that tells those who cannot see it what it shows."""
    names = f"{identity}-t {identity}-d"
    return tag(
        "svg", tag("title", title, id=f"{identity}-t"), tag("desc", description, id=f"{identity}-d"), *children,
        viewBox=f"0 0 {width} {short(height)}", role="img", aria_labelledby=names, **attributes,
    )  # fmt: skip


def icon(name):
    """One of the page's symbols; a word stands beside it, always."""
    return Html(f'<svg class="i {name}" aria-hidden=true><use href=#i-{name} /></svg>')


def time_axis(start, end, across, top, bottom, most):
    """Lines and times. The page's script tells them anew in the viewer's zone; a date stands where the day changes."""
    parts, grid, day = [], "", None
    exact = end - start < 60 * most
    for t in scale.time_ticks(start, end, most):
        x = across(t)
        grid += f"M{short(x)} {short(top)}V{short(bottom)}"
        hour = text(x, bottom + 15, utc(t, "%H:%M:%S" if exact else "%H:%M"), "tick", data_t=short(t))
        date = utc(t, "%m-%d")
        parts += [hour, text(x, bottom + 29, "" if date == day else date, "tick day")]
        day = date
    return tag("g", path(grid, "grid"), *parts, class_="times exact" if exact else "times")


def _value_axis(values, up, left, right, shown):
    grid = "".join(f"M{left} {short(up(value))}H{right}" for value in values)
    return join((path(grid, "grid"), *(text(left - 6, up(value) + 4, shown(value), "value") for value in values)))


def _bars(bases, tops, steps, across, up, class_):
    """Bars from base to top: thick lines, as one path."""
    width = max(across(steps.length) - across(0) - 0.6, 0.8)
    bars = (
        f"M{short(across(steps.start + (n + 0.5) * steps.length))} {short(up(base))}V{short(up(top))}"
        for n, (base, top) in enumerate(zip(bases, tops, strict=True))
        if top > base
    )
    return path("".join(bars), class_, width)


def silences(received):
    """(first, end) of every run of steps in which nothing came."""
    runs, begun = [], None
    for n, value in enumerate([*received, 1]):
        if not value and begun is None:
            begun = n
        elif value and begun is not None:
            runs.append((begun, n))
            begun = None
    return runs


def _outages(steps, across, top, bottom):
    parts = []
    for first, end in silences(steps.values("received")):
        left, right = (across(steps.start + n * steps.length) for n in (first, end))
        parts.append(tag("rect", x=short(left), y=top, width=short(right - left), height=bottom - top, class_="outage"))
        if right - left > 96:
            parts.append(text((left + right) / 2, (top + bottom) / 2, "nothing received", "within"))
    return join(parts)


def _marks(steps, name, shape, across, y):
    parts = []
    for n, happened in enumerate(steps.values(name)):
        if happened:
            size = 3 if happened == 1 else 4 if happened < 5 else 5.5
            x = round(across(steps.start + (n + 0.5) * steps.length))
            parts.append(_SHAPES[shape](x, y, size))
    return path("".join(parts), f"mark {shape}")


_SHAPES = {
    "triangle": lambda x, y, r: f"M{short(x)} {short(y - r)}l{r} {short(2 * r)}h{-2 * r}z",
    "diamond": lambda x, y, r: f"M{short(x)} {short(y - r)}l{r} {r}l{-r} {r}l{-r} {-r}z",
    "square": lambda x, y, r: f"M{short(x - r)} {short(y - r)}h{2 * r}v{2 * r}h{-2 * r}z",
    "cross": lambda x, y, r: f"M{short(x - r)} {short(y - r)}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}",
}


def timeline(steps, width, identity):
    """What came when, and what befell the devices, under one axis of time."""
    narrow = width < 600
    right, top, bottom = width - _RIGHT, 26, 150 if narrow else 176
    across = Scale(steps.start, steps.end, _LEFT, right)
    received, backlog = steps.values("received"), steps.values("backlog")
    values = scale.whole_ticks(max(received))
    up = Scale(0, values[-1], bottom, top)
    live = [all_ - late for all_, late in zip(received, backlog, strict=True)]
    per = duration(steps.length).removeprefix("1\u00a0")
    parts = [
        text(0, 12, f"messages per {per}", "lane"),
        _outages(steps, across, top, bottom),
        _value_axis(values, up, _LEFT, right, reading),
        _bars([0] * len(live), live, steps, across, up, "live"),
        _bars(live, received, steps, across, up, "backlog"),
    ]
    y = bottom + 26
    for name, shape, one, several in _MARKS:
        total = steps.total(name)
        if total:
            parts += [text(0, y, count(total, one, several), "lane"), _marks(steps, name, shape, across, y + 15)]
            y += 43
    y -= 16
    parts.append(time_axis(steps.start, steps.end, across, bottom, y, 4 if narrow else 9))
    parts.append(path(f"M0 {top}V{y}", "cursor"))
    return svg(
        identity, width, y + 34, "Timeline", describe(steps), *parts,
        class_="chart narrow" if narrow else "chart wide", data_from=_LEFT, data_to=right, tabindex="0",
    )  # fmt: skip


def describe(steps):
    """The timeline in words."""
    said = [
        f"{count(steps.total('received'), 'message')} received from {utc(steps.start)} to {utc(steps.end)} UTC,"
        f" in steps of {duration(steps.length)}, {steps.total('backlog'):,} of them backlog",
        count(steps.total("restarts"), "restart"),
        count(steps.total("repeated"), "repetition") + " removed",
        count(steps.total("dead_letters"), "dead letter"),
        count(len(silences(steps.values("received"))), "period") + " in which nothing came",
        f"devices gone offline {count(steps.total('offline'), 'time')}",
    ]
    return "; ".join(said) + "."


_WIDTH, _TOP, _BOTTOM = 360, 10, 118


def band(identity, points, title, description):
    """One measurement: its mean as a line, from the least to the greatest as a band; both end where nothing came."""
    start, end = points[0][0], points[-1][0]
    if start == end:  # one point: in the middle of a minute
        start, end = start - 30, end + 30
    values = scale.ticks(min(point[2] for point in points), max(point[3] for point in points), 3)
    left = round(12 + 6.6 * max(len(reading(value)) for value in values))
    across = Scale(start, end, left, _WIDTH - _RIGHT)
    up = Scale(values[0], values[-1], _BOTTOM, _TOP)
    lines, areas = [], []
    for run in _runs(points):
        mean = [(across(t), up(value)) for t, value, _, _ in run]
        ends = [(across(t), up(high)) for t, _, _, high in run] + [(across(t), up(low)) for t, _, low, _ in run[::-1]]
        if len(run) == 1:  # a point alone has no length: make it one that can be seen
            (x, y), (_, high), (_, low) = mean[0], ends[0], ends[1]
            mean = [(x - 1.5, y), (x + 1.5, y)]
            ends = [(x - 1.5, high), (x + 1.5, high), (x + 1.5, low), (x - 1.5, low)]
        lines.append(_way(mean))
        areas.append(_way(ends) + "z")
    return svg(
        identity, _WIDTH, _BOTTOM + 34, title, description,
        _value_axis(values, up, left, _WIDTH - _RIGHT, reading), time_axis(start, end, across, _TOP, _BOTTOM, 4),
        path("".join(areas), "band"), path("".join(lines), "mean"), path(f"M0 {_TOP}V{_BOTTOM}", "cursor"),
        class_="chart", data_from=left, data_to=_WIDTH - _RIGHT, tabindex="0",
    )  # fmt: skip


def _way(places):
    """A line from place to place, each told from the one before: half as long as in absolute numbers."""
    rounded = [(round(x), round(y, 1)) for x, y in places]
    way = f"M{rounded[0][0]} {short(rounded[0][1])}"
    for (x, y), (before, above) in zip(rounded[1:], rounded, strict=False):
        down = short(y - above)
        way += f"l{x - before}{'' if down.startswith('-') else ' '}{down}"
    return way


def _runs(points):
    """Points without a gap between them; a gap is more than three times what is usual."""
    apart = sorted(after[0] - before[0] for before, after in zip(points, points[1:], strict=False))
    usual = apart[len(apart) // 2] if apart else 0
    run = [points[0]]
    for point in points[1:]:
        if point[0] - run[-1][0] > 3 * usual:
            yield run
            run = []
        run.append(point)
    yield run
