"""The pages of the console that tables make: of what a Live has found, so that none of them waits for a query."""

import functools

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from inflight_tools.fleet.console.server import HTML, TEXT, Refused
from inflight_tools.fleet.monitoring.metrics import FleetMetrics
from inflight_tools.fleet.report import render, render_device, render_devices
from inflight_tools.fleet.report.collectors import behind
from inflight_tools.fleet.where import sentences

_MOST = (1 << 32) - 1  # of numbers and epochs
_NOTHING = {"events": [], "measurements": {}, "trends": {}, "log": [], "way": None}  # of a device, yet


def _whole(query, name):
    text = query.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST)) and int(text) <= _MOST):
        raise Refused(400, f"{name} is a whole number, from 0 to {_MOST}")
    return int(text)


def _way(found):
    if not found:
        return None
    return ((), found["unknown"]) if "unknown" in found else (list(sentences.rows(found)), sentences.sentence(found))


def _listing(fleet, query):
    words = {name: query.get(name, "") for name in ("find", "group", "sort")}
    return fleet.devices.page(**words, number=_whole(query, "number") or 0)


def _of(live, facts):
    return {"age": live.age(facts), "trouble": live.trouble}


def _fleet(live, query):
    facts, page = live.fleet.facts, _listing(live.fleet, {})
    return HTML, render(facts, _fresh(live, query)[1], listing=page, **_of(live, facts))


def _devices(live, query):
    facts, page = live.fleet.facts, _listing(live.fleet, query)
    return HTML, render_devices(facts, _fresh(live, query)[1], page, **_of(live, facts))


def _asked(query):
    return query.get("name", ""), _whole(query, "message"), _whole(query, "epoch")


def _device(live, query):
    fleet, asked = live.fleet, _asked(query)
    device = fleet.devices.device(asked[0])
    if device is None:
        raise Refused(404, "No message has arrived from a device of this name.")
    words = {name: query.get(name) for name in ("message", "epoch")}
    fresh = _fresh(live, query)[1]  # before the answer, which may come meanwhile
    _, found = live.ask(*asked)
    facts = found or fleet.facts | _NOTHING | {"devices": [device]}
    return HTML, render_device(facts, fresh, words, _way(facts["way"]), found is None, **_of(live, facts))


def _fresh(live, query):
    """A text that differs when the page of this query does."""
    answered = f" {live.ask(*_asked(query))[0]}" if "name" in query else ""
    return TEXT, f"{live.fleet.fresh}{answered}{' !' if live.trouble else ''}"


def _metrics(live, _):
    if live.trouble:  # older figures would hide it
        raise Refused(503, f"The tables cannot be read: {live.trouble}")
    registry, facts = CollectorRegistry(), live.fleet.facts
    registry.register(FleetMetrics(facts, len(behind(facts))))
    return CONTENT_TYPE_LATEST, generate_latest(registry).decode()


def _known(page, live, query):
    if not live.fleet:
        raise Refused(
            503, f"The tables cannot be read: {live.trouble}" if live.trouble else "The tables are being read."
        )
    return page(live, query)


def of_tables(live):
    """{path: page} of a live.Live, for a server.Console."""
    pages = {"/": _fleet, "/devices": _devices, "/device": _device, "/fresh": _fresh, "/metrics": _metrics}
    return {path: functools.partial(_known, page, live) for path, page in pages.items()}
