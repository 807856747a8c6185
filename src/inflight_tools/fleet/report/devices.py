"""The devices, worst first: a row each, and all that is known of one when it is opened."""

from .markup import clip, join, known, tag
from .plots import icon
from .words import NONE, count, duration, milliseconds, moment, number, size

MOST = 500  # rows; a page of more is of no use to anybody
_STATES = ("online", "asleep", "offline")
_EVENTS, _LINES = 3, 12
_FULL = 0.8  # of a journal
_COLUMNS = (  # head, its key in a device's facts
    ("Accepted", "accepted"), ("Delivered", "delivered"), ("Lost", "lost"), ("Late", "late"), ("Repeated", "repeated"),
    ("Restarts", "restarts"), ("Latency p95", "latency"), ("Last heard", "seen"),
)  # fmt: skip


def name(device):
    """A device's name, which anybody can choose: no longer than a line, and its direction stays its own."""
    return tag("bdi", clip(device, 64))


def state(words):
    """A state is free text, three are known by a symbol as well."""
    known_one = words if words in _STATES else "unknown"
    return join((icon(known_one), clip(words or "unknown", 24)), " ")


def health(device):
    """[(symbol, words), ...] of what is wrong with it, the gravest first."""
    found = []
    if device["lost"]:
        found.append(("bad", f"{number(device['lost'])} lost"))
    if device["late"]:
        found.append(("waiting", f"{number(device['late'])} late"))
    if device["dead_letters"]:
        found.append(("warn", count(device["dead_letters"], "dead letter")))
    journal = device["journal"] or {}
    used, limit = known(journal.get("used")), known(journal.get("limit"))
    if used and limit and used >= _FULL * limit:
        found.append(("warn", f"journal {100 * used / limit:.0f} % in use"))
    found += [("warn", clip(flag, 60)) for flag in device["flags"][:_LINES]]
    if device["errors"]:
        found.append(("warn", count(len(device["errors"]), "sensor error")))
    return found


def _health_cell(device):
    found = health(device)
    if not found:
        return tag("span", icon("good"), " well", class_="flag")
    return join((tag("span", icon(symbol), " ", words, class_=f"flag {symbol}") for symbol, words in found), " ")


def _numbers(device, made):
    """The cells of numbers; `data-v` is what a cell is sorted by if that is not what it shows."""
    for _, key in _COLUMNS[:-2]:
        yield tag("td", number(device[key]))
    latency = known((device["latency_ms"] or {}).get("p95"))
    yield tag("td", milliseconds(latency), data_v=latency)
    seen = known(device["seen"])
    ago = None if seen is None else max(round(made - seen), 0)
    words = NONE if ago is None else f"{duration(ago)} ago" if ago else "just now"
    yield tag("td", words, data_v=ago)


def _terms(title, pairs):
    rows = join(part for term, value in pairs for part in (tag("dt", term), tag("dd", value)))
    return tag("div", tag("h4", title), tag("dl", rows))


def _listed(title, pairs, none):
    """A heading, and at most so many lines: what devices send has no bound."""
    if not pairs:
        return _terms(title, [(none, "")])
    shown = [(clip(term, 60), clip(value, 160)) for term, value in pairs[:_LINES]]
    left = len(pairs) - len(shown)
    return _terms(title, [*shown, ("and more", number(left))] if left else shown)


def _details(device, events):
    latency, journal = device["latency_ms"] or {}, device["journal"] or {}
    rssi = NONE if known(device["rssi"]) is None else f"{device['rssi']} dBm"
    groups = [
        _terms("Messages", [
            ("Numbers taken twice", number(device["conflicts"])), ("Dead letters", number(device["dead_letters"])),
            ("Before the first", number(device["before"])), ("Sent again", number(device["resends"])),
            ("Latency p50", milliseconds(latency.get("p50"))), ("Latency p99", milliseconds(latency.get("p99"))),
        ]),
        _terms("Device", [
            ("Firmware", clip(device["firmware"] or NONE, 40)), ("State since", moment(device["since"])),
            ("Last heard", moment(device["seen"], exact=True)), ("Reconnects", number(device["reconnects"])),
            ("Free heap", size(device["heap"])), ("Signal", rssi),
        ]),
        _terms("Journal", [
            ("Messages waiting", number(journal.get("live"))),
            ("In use", f"{size(journal.get('used'))} of {size(journal.get('limit'))}"),
            ("Sector erases", number(journal.get("erases"))), ("Damage found", number(journal.get("damaged"))),
            ("Journals (epochs)", number(device["epochs"])),
            ("Refused, full", number(device["outbox_full"])),
        ]),
        _listed("Resets", [(cause or "?", number(n)) for cause, n in device["resets"].items() if n], "none known"),
        _listed("Sensor errors", list(device["errors"].items()), "none"),
        _terms("Newest events", [(moment(event["t"], exact=True), _event(event)) for event in events[:_EVENTS]]
               or [("none", "")]),
    ]  # fmt: skip
    return tag("div", *groups, class_="inside")


def _event(event):
    return ": ".join(clip(event[key], 60) for key in ("what", "detail") if event[key])


def _device(n, device, made, events):
    identity = f"d{n}"
    button = tag("button", name(device["device"]), aria_expanded="false", aria_controls=identity)
    cells = [
        tag("th", button),
        tag("td", state(device["state"])),
        tag("td", _health_cell(device), class_="health"),
        *_numbers(device, made),
    ]
    more = tag("tr", tag("td", _details(device, events), colspan=len(cells)), id=identity, class_="more")
    return tag("tbody", tag("tr", *cells), more)


def _head(words, number_=True, sort="none"):
    button = tag("button", words, type="button")
    return tag("th", button, scope="col", aria_sort=sort, class_="n" if number_ else None)


def table(facts):
    devices, events = facts["devices"][:MOST], {}
    for event in facts["events"]:
        events.setdefault(event["device"], []).append(event)
    heads = [_head("Device", False), _head("State", False), _head("Health", False, "ascending"),
             *(_head(words) for words, _ in _COLUMNS)]  # fmt: skip
    bodies = [_device(n, one, facts["made"], events.get(one["device"], ())) for n, one in enumerate(devices)]
    listed = tag("table", tag("thead", tag("tr", *heads)), *bodies, id="devices-table")
    return join((_find(len(devices), facts["fleet"]["devices"]), tag("div", listed, class_="scroll", **_SCROLL)))


_SCROLL = {"role": "region", "tabindex": "0", "aria_label": "Devices; the table scrolls sideways"}


def _find(listed, all_):
    note = tag("output", count(listed, "device"), id="found")
    if listed < all_:
        note = join((note, tag("span", f" (the worst of {number(all_)})")))
    box = tag("input", id="find", type="search", autocomplete="off", placeholder="name, state, flag")
    label = tag("label", "Filter ", box, class_="js-only")
    return tag("p", label, " ", tag("span", note, class_="quiet"), class_="tools")
