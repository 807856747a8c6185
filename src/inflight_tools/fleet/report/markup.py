"""HTML that is safe by the way it is made: whatever is not Html already is escaped. Messages may come from anybody."""

import json
import math
import re
import unicodedata

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_UNSEEN = ("C", "Zl", "Zp")  # controls, marks of direction, surrogates, unassigned; line and paragraph separators
_SPECIAL = re.compile(r"[^ !#-%(-;=?-~]")  # all that is not plain ASCII without the five above
_NO_CLOSE = ("input", "link", "meta")
_CLOSED_BY_NEXT = ("dd", "dt", "li", "option", "tbody", "td", "th", "thead", "tr")  # HTML needs no end of these
_BARE = re.compile(r"[\w.:#-]+", re.ASCII)  # an attribute that needs no quotes


class Html(str):
    """Finished HTML."""

    __slots__ = ()


def clip(text, most):
    text = str(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def _one(found):
    char = found[0]
    if char in _ENTITIES:
        return _ENTITIES[char]
    if unicodedata.category(char).startswith(_UNSEEN):  # as Python writes it: it could turn or hide its neighbours
        return ascii(char)[1:-1]
    return char


def escape(text):
    """Any text as HTML, what cannot be seen included: the page shows what was sent, and is valid UTF-8."""
    return text if isinstance(text, Html) else Html(_SPECIAL.sub(_one, str(text)))


def join(parts, between=""):
    return Html(between.join(map(escape, parts)))


def tag(name, /, *children, **attributes):
    """An element. Attributes: `class_` is class, `data_v` data-v; None is left out, True has no value."""
    head = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        head.append(key if value is True else f"{key}={_quoted(value)}")
    closing = "" if name in _NO_CLOSE or name in _CLOSED_BY_NEXT else f"</{name}>"
    return Html(f"<{' '.join(head)}>{join(children)}{closing}")


def _quoted(value):
    text = str(value)
    return text if _BARE.fullmatch(text) else f'"{escape(value)}"'


def known(value):
    """value if it is a number that can be shown, else None."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if good else None


def _finite(value):
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def data(identity, value):
    """A value for the page's script. Nothing in it can end the element: it has no <, > or &, and is ASCII alone."""
    text = json.dumps(_finite(value), separators=(",", ":"))
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return tag("script", Html(text), id=identity, type="application/json")
