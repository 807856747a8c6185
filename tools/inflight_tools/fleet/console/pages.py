"""The pages of the console that tables make."""

import functools

from deltalake.exceptions import DeltaError
from duckdb import Error as QueryError
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from inflight_tools.fleet.console.server import HTML, TEXT, Refused
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.monitoring.metrics import FleetMetrics
from inflight_tools.fleet.report import render, render_device
from inflight_tools.fleet.report.collectors import behind
from inflight_tools.fleet.where import sentences
from inflight_tools.output import first_line

_MOST = (1 << 32) - 1  # of numbers and epochs


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


def _fleet(live, _):
    fresh, facts = live.fleet()
    return HTML, render(facts, fresh)


def _device(live, query):
    name = query.get("name", "")
    fresh, facts = live.device(name, _whole(query, "message"), _whole(query, "epoch"))
    if facts is None:
        raise Refused(404, "No message has arrived from a device of this name.")
    asked = {name: query.get(name) for name in ("message", "epoch")}
    return HTML, render_device(facts, fresh, asked, _way(facts["way"]))


def _fresh(live, _):
    return TEXT, live.fresh()


def _metrics(live, _):
    registry = CollectorRegistry()
    _, facts = live.fleet()
    registry.register(FleetMetrics(facts, len(behind(facts))))
    return CONTENT_TYPE_LATEST, generate_latest(registry).decode()


def _reading(page, live, query):
    try:
        return page(live, query)
    except (WrongTables, DeltaError, QueryError, OSError, ValueError) as e:
        raise Refused(503, f"The tables cannot be read: {first_line(e)}") from None


def of_tables(live):
    """{path: page} of a live.Live, for a server.Console."""
    pages = {"/": _fleet, "/device": _device, "/fresh": _fresh, "/metrics": _metrics}
    return {path: functools.partial(_reading, page, live) for path, page in pages.items()}
