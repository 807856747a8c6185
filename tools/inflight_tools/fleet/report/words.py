"""Numbers, times and texts, formatted for people."""

import datetime
import math

from markupsafe import Markup

from inflight_tools import visible as texts

NONE = "–"
# Of missing messages that are not lost: keys of the facts, and words.
PLACES = {"given_up": "given up", "on_way": "on the way", "on_device": "in a journal"}
CAUSES = {
    "erased": "in a journal that was replaced",
    "dropped": "dropped",
    "damaged": "damaged",
    "skipped": "skipped after damage",
}  # why devices gave up
RELEASES = {"fetch": "fetched by", "trial": "tried by", "good": "good on", "bad": "bad on", "refused": "refused by"}
_SPACE = "\u00a0"  # between a number and its unit: no line break there
_UNITS = {"Cel": "°C", "%RH": "% RH", "/": "ratio", "Ohm": "Ω", "count": "", "%EL": "% of the battery"}


def known(value):
    """Whether `value` is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def visible(value):
    """A value of the page; a text that is not HTML is made visible."""
    return texts.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def clip(text, most):
    return text if len(text) <= most else text[: most - 1] + "…"


def number(value):
    """1234567 as "1,234,567"."""
    return f"{value:,}" if known(value) else NONE


def count(value, what, several=None):
    """ "1 message", "1,200 messages"."""
    return f"{number(value)} {what if value == 1 else several or what + 's'}"


def reading(value):
    """A measured value, with about four digits."""
    if not known(value):
        return NONE
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-4:
        return f"{value:.3g}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"


def unit(name):
    return _UNITS.get(name, name or "")


def duration(seconds):
    """A duration in the largest unit that gives at least 1."""
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
    for factor, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if octets >= 10 * factor:
            return f"{octets / factor:,.0f}{_SPACE}{name}"
    return f"{octets:,}{_SPACE}B"


def share(part, whole):
    """A percentage. It is 100 only for all, and 0 only for nothing."""
    if not whole:
        return NONE
    percent = 100 * part / whole
    if part and percent < 0.01:
        return f"<{_SPACE}0.01{_SPACE}%"
    if part < whole and percent > 99.99:
        return f">{_SPACE}99.99{_SPACE}%"
    return f"{percent:.2f}".rstrip("0").rstrip(".") + f"{_SPACE}%"


def utc(seconds, form="%Y-%m-%d %H:%M"):
    """A time in UTC; NONE if it is outside the calendar."""
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime(form)
    except (TypeError, ValueError, OverflowError, OSError):
        return NONE


def moment(seconds, exact=False):
    """A time in UTC (Z). The page's script shows it in the viewer's time zone."""
    text = utc(seconds, "%Y-%m-%d %H:%M:%SZ" if exact else "%Y-%m-%d %H:%MZ")
    return text if text == NONE else Markup("<time>{}</time>").format(text)
