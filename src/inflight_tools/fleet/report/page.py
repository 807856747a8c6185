"""The whole page."""

import base64
import hashlib
from pathlib import Path

from . import devices, sections
from .markup import Html, clip, tag
from .plots import icon
from .verdict import EMPTY, LABELS, verdict
from .words import ZONE, moment

_HERE = Path(__file__).parent
_SHAPES = {  # symbols differ in shape, not only in colour
    "good": '<circle cx="8" cy="8" r="7"/><path class="in" d="m4.5 8.2 2.4 2.4 4.6-4.9"/>',
    "waiting": '<circle cx="8" cy="8" r="7"/><path class="in" d="M8 4v4.3l2.8 1.6"/>',
    "bad": '<path d="M5 1h6l4 4v6l-4 4H5l-4-4V5z"/><path class="in" d="m5.4 5.4 5.2 5.2m0-5.2-5.2 5.2"/>',
    "warn": '<path d="M8 1l7.4 13.4H.6z"/><path class="in" d="M8 6v4m0 1.8v.4"/>',
    "empty": '<circle cx="8" cy="8" r="6.4" class="hollow"/>',
    "online": '<circle cx="8" cy="8" r="5"/>',
    "offline": '<circle cx="8" cy="8" r="4.6" class="hollow"/><path class="stroke" d="m3 13 10-10"/>',
    "asleep": '<path d="M10 3a5.4 5.4 0 1 0 3.6 8.2A5.6 5.6 0 0 1 10 3z"/>',
    "unknown": '<path class="stroke" d="M3 8h10"/>',
    "k-live": '<path class="live" d="M8 15V2" stroke-width="14"/>',
    "k-backlog": '<path class="backlog" d="M8 15V2" stroke-width="14"/>',
    "k-outage": '<path class="outage" d="M1 15V2h14v13z"/>',
    "k-square": '<path class="mark square" d="M4 4h8v8H4z"/>',
    "k-triangle": '<path class="mark triangle" d="m8 3 5 10H3z"/>',
    "k-diamond": '<path class="mark diamond" d="m8 3 5 5-5 5-5-5z"/>',
    "k-cross": '<path class="mark cross" d="m3 3 10 10M13 3 3 13"/>',
    "k-mean": '<path class="mean" d="M0 8h16"/>',
    "k-band": '<path class="band" d="M0 3h16v10H0z"/>',
}
_PATTERNS = (  # hatching, so that areas differ without colour
    ("hatch", '<path class="p-backlog" d="M0 0h6v6H0z"/><path class="p-line" d="M-1 7 7-1M-1 1 1-1M5 7 7 5"/>', 6),
    ("void", '<path class="p-void" d="M-1-1 9 9M-1 7l2 2M7-1l2 2"/>', 8),
)


def _symbols():
    shapes = "".join(f'<symbol id="i-{name}" viewBox="0 0 16 16">{shape}</symbol>' for name, shape in _SHAPES.items())
    patterns = "".join(
        f'<pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse">{shape}</pattern>'
        for name, shape, size in _PATTERNS
    )
    return Html(f'<svg class="symbols" aria-hidden="true" width="0" height="0">{shapes}<defs>{patterns}</defs></svg>')


def _digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _head(title, style, script):
    """Nothing but this style and this script may act, and nothing may be fetched: the browser sees to it."""
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    return tag(
        "head", tag("meta", charset="utf-8"), tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"), tag("link", rel="icon", href="data:,"),
        tag("title", title), tag("style", Html(style)),
    )  # fmt: skip


def _banner(facts, judged):
    root = tag("span", "Fleet ", tag("b", tag("bdi", clip(facts["root"] or "", 64))))
    when = ["made ", moment(facts["made"]), " ", ZONE]
    if facts["since"] is not None:
        when = ["received ", moment(facts["since"]), " to ", moment(facts["until"]), " ", ZONE, " · ", *when]
    notes = tag("ul", *(tag("li", note) for note in judged.notes)) if judged.notes else ""
    label = tag("p", icon(judged.kind), " ", LABELS[judged.kind], class_="label")
    said = tag("div", label, tag("h1", judged.sentence, id="verdict", data_kind=judged.kind), notes,
               class_=f"verdict {judged.kind}")  # fmt: skip
    return tag("header", tag("p", root, tag("span", *when, class_="quiet"), class_="about"), said)


_PARTS = (
    ("timeline", "Timeline", sections.timeline),
    ("devices", "Devices", lambda facts: sections.section("devices", "Devices, worst first", devices.table(facts))),
    ("measurements", "Measurements", sections.measurements),
    ("dead", "Dead letters", sections.dead_letters),
    ("meaning", "What the words mean", sections.meaning),
)


def render(facts):
    """The page about `facts`, as text: complete in itself, nothing is fetched to show it."""
    style, script = ((_HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    judged = verdict(facts)
    if judged.kind == EMPTY:
        links, parts = "", [sections.empty(facts)]
    else:
        links = tag("nav", *(tag("a", words, href=f"#{place}") for place, words, _ in _PARTS), aria_label="Parts")
        parts = [sections.glance(facts), *(part(facts) for _, _, part in _PARTS)]
    body = tag(
        "body", _symbols(), tag("a", "Skip to the figures", href="#main", class_="skip"), _banner(facts, judged), links,
        tag("main", *parts, id="main"), tag("script", Html(script)),
    )  # fmt: skip
    head = _head(f"{judged.sentence} {clip(facts['root'] or '', 64)}", style, script)
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"
