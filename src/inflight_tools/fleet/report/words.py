"""Figures as people read them."""

import datetime

from .markup import Html, known, tag

NONE = "–"
_SPACE = "\u00a0"  # between a figure and its unit: a line does not end there
_UNITS = {"Cel": "°C", "%RH": "% RH", "/": "ratio", "Ohm": "Ω", "lx": "lx"}


def number(value):
    """1234567 as "1,234,567"."""
    return NONE if known(value) is None else f"{value:,}"


def count(value, what, several=None):
    """ "1 message", "1,200 messages"."""
    return f"{number(value)} {what if value == 1 else several or what + 's'}"


def reading(value):
    """A measured value: what a sensor can tell, about four digits."""
    if known(value) is None:
        return NONE
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-4:
        return f"{value:.3g}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"


def unit(name):
    return _UNITS.get(name, name or "")


def duration(seconds):
    """The same in the largest unit that leaves digits before the point."""
    if known(seconds) is None:
        return NONE
    if not seconds:
        return f"0{_SPACE}s"
    for size, name in ((86400, "days"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size * (2 if size == 86400 else 1):
            amount = seconds / size
            digits = 0 if amount >= 10 or amount == int(amount) else 1
            return f"{amount:.{digits}f}{_SPACE}{name}"
    return f"{seconds * 1000:.0f}{_SPACE}ms"


def milliseconds(value):
    return NONE if known(value) is None else duration(value / 1000)


def size(octets):
    if known(octets) is None:
        return NONE
    return f"{octets / 1024:,.0f}{_SPACE}KB" if octets >= 10240 else f"{octets:,}{_SPACE}B"


def share(part, whole):
    """A percentage that says 100 only of all, and 0 only of nothing."""
    if not whole:
        return NONE
    percent = 100 * part / whole
    if part and percent < 0.01:
        return f"<{_SPACE}0.01{_SPACE}%"
    if part < whole and percent > 99.99:
        return f">{_SPACE}99.99{_SPACE}%"
    return f"{percent:.2f}".rstrip("0").rstrip(".") + f"{_SPACE}%"


def utc(seconds, form="%Y-%m-%d %H:%M"):
    """A time in UTC; a clock may tell any time, the calendar ends."""
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime(form)
    except (TypeError, ValueError, OverflowError, OSError):
        return NONE


def moment(seconds, exact=False):
    """A time that the page's script tells in the viewer's zone; without it, in UTC (Z)."""
    text = utc(seconds, "%Y-%m-%d %H:%M:%SZ" if exact else "%Y-%m-%d %H:%MZ")
    return Html(NONE) if text == NONE else tag("time", text)


ZONE = Html('<span class="zone">UTC</span>')


def figure(identity, value, shown=None):
    """A figure that can be read back: exact in `value`, readable between."""
    return tag("data", shown or number(value), id=identity, value="" if known(value) is None else value)
