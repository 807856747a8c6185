"""Figures and texts as people read them."""

import datetime
import math
import unicodedata

from markupsafe import Markup

NONE = "–"
_SPACE = "\u00a0"  # between a figure and its unit: a line does not end there
_UNSEEN = ("C", "Zl", "Zp")  # controls, marks of direction, surrogates, unassigned; line and paragraph separators
_UNITS = {"Cel": "°C", "%RH": "% RH", "/": "ratio", "Ohm": "Ω", "lx": "lx"}


def known(value):
    """Whether it is a number that can be shown."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def visible(value):
    """A text with what cannot be seen as Python writes it: it could turn or hide its neighbours, or be no UTF-8."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(ascii(c)[1:-1] if unicodedata.category(c).startswith(_UNSEEN) else c for c in value)


def clip(text, most):
    return text if len(text) <= most else text[: most - 1] + "…"


def number(value):
    """1234567 as "1,234,567"."""
    return f"{value:,}" if known(value) else NONE


def count(value, what, several=None):
    """ "1 message", "1,200 messages"."""
    return f"{number(value)} {what if value == 1 else several or what + 's'}"


def reading(value):
    """A measured value: what a sensor can tell, about four digits."""
    if not known(value):
        return NONE
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-4:
        return f"{value:.3g}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"


def unit(name):
    return _UNITS.get(name, name or "")


def duration(seconds):
    """The same in the largest unit that leaves digits before the point."""
    if not known(seconds):
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
    return duration(value / 1000) if known(value) else NONE


def size(octets):
    if not known(octets):
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
    return text if text == NONE else Markup("<time>{}</time>").format(text)
