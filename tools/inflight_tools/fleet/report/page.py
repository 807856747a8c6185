"""The pages, rendered from templates/: the report, and those of the console (fleet/console)."""

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from inflight_tools.fleet.judgement import JUDGED, kind

from . import devices, plots, words
from .change import figures, told
from .collectors import collectors
from .series import charts
from .steps import COUNTS, steps
from .verdict import LABELS, verdict

_HERE = Path(__file__).parent
_SHARED = _HERE.parents[1]


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
    devices.health, devices.missing, devices.event, devices.state, devices.build, devices.link,
)  # fmt: skip
_ENVIRONMENT.filters |= {filter_.__name__: filter_ for filter_ in _FILTERS} | {"sha256": _digest}
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
_ENVIRONMENT.tests["known"] = words.known


def _text(name, folder=_HERE):
    return Markup((folder / name).read_text(encoding="utf-8"))


def _style():
    return _text("base.css", _SHARED) + _text("page.css")


def _script(live):
    return _text("page.js") + _text("live.js") if live else _text("page.js")


def _page(template, facts, live, **more):
    """live: what the page compares to know whether the tables have changed; None: it fetches nothing."""
    # What a device measures, and then what it tells of itself.
    series = {device: found + facts["trends"].get(device, []) for device, found in facts["measurements"].items()}
    measured = charts(series)
    points = {chart["identity"]: chart["read"] for drawn in measured.values() for chart in drawn if chart["read"]}
    return _ENVIRONMENT.get_template(template).render(
        {"now": False, "installable": (), "listing": None, "facts": facts, "fleet": facts["fleet"],
         "causes": words.CAUSES, "releases": words.RELEASES, "live": live, "kinds": JUDGED, "judged": kind(facts),
         "script": _script(live), "series": series, "measured": measured, "style": _style(), "points": points} | more
    )  # fmt: skip


def render_device(facts, live, query, way, waits, token=None, outcome=None, told=None, **of):
    """Returns the console's page of the only device of `facts`, which are those of query.facts.of_device(). query: what
    the viewer has asked of it, {"message", "epoch"} as texts. way: (rows, sentence) of where.words, None without a
    question. waits: all but the device itself is still to be read. token, outcome: as
    render_roster() has them. told: rows of what the device tells at a broker, if it does. of: as render() has it."""
    of |= {"token": token, "outcome": outcome, "told": told} | ({"judged": None} if waits else {})
    return _page("device.html", facts, live, device=facts["devices"][0], query=query, way=way, waits=waits, **of)


def render_devices(facts, live, listing, **of):
    """Returns the console's page of a listing.Page. of: as render() has it."""
    facts = facts | {"measurements": {}}
    return _page("listed.html", facts, live, listing=listing, listed=listing.devices, **of)


def render_roster(
    place, live, trouble, devices=None, device=None, token=None, outcome=None, form=None, wrong=None, installable=()
):
    """Returns a page of the console about devices at a broker, `place`, by their own messages: all of `devices`, or the
    one whose rows `device` has. trouble: what the connection to the broker reports. token: of forms that change the
    device, None: without them; outcome: of the last one. form: of its settings, see devices.form.shown(), and what is
    `wrong` with them; then `live` is None. installable: names of releases."""
    parts = [("roster", "Devices")] if device is None else [("told", "What it tells")]
    parts = [("settings", "Settings")] if form else parts + [("change", "Change it")] * bool(token and device)
    return _ENVIRONMENT.get_template("broker.html").render(
        place=place, live=live, trouble=trouble, devices=devices, device=device, told=device, token=token,
        outcome=outcome, style=_style(), script=_script(live), parts=parts, form=form, wrong=wrong,
        installable=installable,
    )  # fmt: skip


def render(facts, live=None, changed=None, listing=None, **of):
    """Returns the page about `facts`. It contains all that it needs: nothing is fetched to show it. live: as in the
    console, which has a page for each device and shows what is new; listing: its listing.Page of devices; of: the `age`
    of the facts in s, `trouble`, why there are no newer ones, or None, `now`, whether there are pages of what devices
    tell now, and names of `installable` releases. changed: what change() has found, if anything."""
    found = steps(facts["timeline"])
    timelines = found and (plots.timeline(found, 1080, "wide"), plots.timeline(found, 360, "narrow"))
    return _page(
        "page.html", facts, live, verdict=verdict(facts), labels=LABELS, steps=found, counts=COUNTS,
        timelines=timelines, listed=listing.devices if listing else facts["devices"][: devices.MOST],
        collectors=collectors(facts), changed=changed, changes=told(changed) if changed else (), figures=figures(facts),
        listing=listing, **of,
    )  # fmt: skip
