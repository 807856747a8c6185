"""The page, rendered from templates/."""

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from . import devices, plots, words
from .collectors import collectors
from .series import charts
from .steps import COUNTS, steps
from .verdict import LABELS, verdict

_HERE = Path(__file__).parent


def _digest(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,  # the texts of devices are not trusted
    finalize=words.visible,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_FILTERS = (
    words.clip, words.count, words.duration, words.milliseconds, words.moment, words.number, words.share, words.size,
    devices.health, devices.missing, devices.event, devices.state, devices.build,
)  # fmt: skip
_ENVIRONMENT.filters |= {filter_.__name__: filter_ for filter_ in _FILTERS} | {"sha256": _digest}
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
_ENVIRONMENT.tests["known"] = words.known


def render(facts):
    """Returns the page about `facts`. It contains all that it needs: nothing is fetched to show it."""
    style, script = (Markup((_HERE / name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    found = steps(facts["timeline"])
    timelines = found and (plots.timeline(found, 1080, "wide"), plots.timeline(found, 360, "narrow"))
    # What a device measures, and then what it tells of itself.
    series = {device: found + facts["trends"].get(device, []) for device, found in facts["measurements"].items()}
    measured = charts(series)
    points = {chart["identity"]: chart["read"] for drawn in measured.values() for chart in drawn if chart["read"]}
    return _ENVIRONMENT.get_template("page.html").render(
        facts=facts, fleet=facts["fleet"], verdict=verdict(facts), labels=LABELS, causes=words.CAUSES,
        style=style, script=script,
        steps=found, counts=COUNTS, timelines=timelines, listed=facts["devices"][: devices.MOST],
        series=series, measured=measured, points=points, collectors=collectors(facts),
    )  # fmt: skip
