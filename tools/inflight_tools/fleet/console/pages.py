"""The pages of the console that tables make: of what a Live has found, so that none of them waits for a query. `beside`
is a devices.DevicePages of what devices tell at a broker now, or None."""

import functools

from deltalake.exceptions import DeltaError
from duckdb import Error as QueryError
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from inflight_tools.fleet import device
from inflight_tools.fleet.console.server import HTML, TEXT, Refused
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.lock import Busy
from inflight_tools.fleet.report import render, render_device, render_devices
from inflight_tools.fleet.where import sentences
from inflight_tools.output import first_line, log
from inflight_tools.visible import visible

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


def _of(live, facts, beside):
    more = {"now": True, "installable": beside.installable} if beside else {}
    return {"age": live.age(facts), "trouble": live.trouble} | more


def _fleet(live, query, beside):
    facts, page = live.fleet.facts, _listing(live.fleet, {})
    return HTML, render(facts, _fresh(live, query, beside)[1], listing=page, **_of(live, facts, beside))


def _devices(live, query, beside):
    if beside and "now" in query:
        return beside.fleet(query)
    facts, page = live.fleet.facts, _listing(live.fleet, query)
    return HTML, render_devices(facts, _fresh(live, query, beside)[1], page, **_of(live, facts, beside))


def _asked(query):
    return query.get("name", ""), _whole(query, "message"), _whole(query, "epoch")


def _device(live, query, beside, token=None, outcome=None):
    fleet, asked = live.fleet, _asked(query)
    known = fleet.devices.device(asked[0])
    if known is None and beside and beside.told(asked[0]):
        return beside.device(query, outcome)
    if known is None:
        raise Refused(404, "No message has arrived from a device of this name.")
    words = {name: query.get(name) for name in ("message", "epoch")}
    fresh = _fresh(live, query, beside)[1]  # before the answer, which may come meanwhile
    told = beside and beside.told(asked[0])  # the name that forms change
    found = live.ask(*asked)
    facts = found or fleet.facts | _NOTHING | {"devices": [known]}
    return HTML, render_device(
        facts, fresh, words, _way(facts["way"]), found is None, token, outcome, told, **_of(live, facts, beside)
    )


def _change(page, live, query, form, beside):
    """Says of a device what a form has, as the commands do, or changes the device."""
    name, act, undo = query.get("name", ""), form.get("act", ""), "undo" in form
    if beside and act not in device.COMMANDS:
        return beside.change(query, form, functools.partial(page, live, beside=beside))
    if act not in device.COMMANDS or live.fleet.devices.device(name) is None:
        raise Refused(404, "There is no such device, or nothing of this kind to say of it.")
    log(visible(f"{name}: {act} {form.get('value', '')}{' --undo' * undo}"))
    try:
        live.say(name, act, None if undo else form.get("value", "").strip(), undo)
        outcome = "It is noted, and counts in a moment."
    except device.Missing as e:
        outcome = f"Failed: write {e}."
    except (WrongTables, Busy, DeltaError, QueryError, ValueError, OSError) as e:
        outcome = f"Failed: {first_line(e)}"
    return page(live, query, outcome=outcome, beside=beside)


def _fresh(live, query, beside):
    """A text that differs when the page of this query does."""
    if beside and "now" in query:
        return TEXT, beside.fresh()
    asked = _asked(query)
    known = asked[0] and live.fleet.devices.device(asked[0])
    if beside and asked[0] and not known:
        return TEXT, beside.fresh(asked[0])
    answered = f" {live.answered(*asked)}" if known else ""
    told = f" {beside.fresh(asked[0])}" if beside and asked[0] else ""
    return TEXT, f"{live.fleet.fresh}{answered}{told}{' !' if live.trouble else ''}"


def _metrics(live, _, beside):
    if live.trouble:  # older figures would hide it
        raise Refused(503, f"The tables cannot be read: {live.trouble}")
    return CONTENT_TYPE_LATEST, live.fleet.metrics


def _without_tables(live):
    """Why there are no facts yet, "": there are."""
    if live.fleet:
        return ""
    return f"The tables cannot be read: {live.trouble}" if live.trouble else "The tables are being read."


def _known(page, of_broker, live, beside, *asked):
    if not (trouble := _without_tables(live)):
        return page(live, *asked, beside=beside)
    if of_broker:
        return of_broker(*asked)
    raise Refused(503, trouble)


def of_tables(live, token=None, beside=None):
    """Arguments for a server.Console of a live.Live. token: what forms have that say something of a device; None: there
    are none."""
    one = functools.partial(_device, token=token)
    pages = {"/": _fleet, "/devices": _devices, "/device": one, "/fresh": _fresh, "/metrics": _metrics}
    changes = {"/device": functools.partial(_change, one)} if token else {}
    if beside:
        beside.tell_also(functools.partial(_without_tables, live))

    def known(of, others):
        return {path: functools.partial(_known, page, others.get(path), live, beside) for path, page in of.items()}

    others = [beside.pages, beside.changes or {}] if beside else [{}, {}]
    return {"pages": known(pages, others[0]), "changes": known(changes, others[1]), "token": token}
