"""What is known of devices, as fields of JSON and as tables."""

import json
import time

from rich.table import Table
from rich.text import Text

from inflight_tools.boards.monitor import spelled
from inflight_tools.devices.roster import ASLEEP, ONLINE
from inflight_tools.visible import visible

_LONGEST = 200  # characters of an error
_COUNTED = {"outbox_full": "messages refused by a full journal", "rules": "exceptions in rules"}
_TITLES = {"device": "device", "state": "state", "firmware": "firmware", "reading": "last reading", "wrong": "wrong"}


def moment(seconds):
    """A time in s since 1970 as text, None: None."""
    return None if seconds is None else time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


def wrong(device):
    """What is wrong with a Device, texts; None if it has not told its health, and nothing else is wrong."""
    health, release = device.health, device.release
    found = ["safe mode"] if device.status.get("safe") else []
    if release.get("state") in ("bad", "refused"):
        found.append(f"release {release.get('release')} is {release['state']}: {release.get('reason', 'no reason')}")
    errors = health.get("errors")
    found += [f"{name}: {text}" for name, text in errors.items()] if isinstance(errors, dict) else []
    if isinstance(health.get("error"), dict):
        found.append(f"it ended with {health['error'].get('text')}")
    found += [f"{health[name]} {words}" for name, words in _COUNTED.items() if health.get(name)]
    counters, journal = health.get("counters"), health.get("journal")
    if isinstance(counters, dict) and counters.get("too_long"):
        found.append(f"{counters['too_long']} messages to it were longer than its `buffer` takes")
    if isinstance(journal, dict) and journal.get("damaged"):
        found.append(f"{journal['damaged']} damaged records of the journal")
    return [text[:_LONGEST] for text in found] if found or health else None


def facts(device):
    """What is known of a Device, for JSON."""
    told = {
        name: device.status[name] for name in ("firmware", "board", "micropython", "group") if name in device.status
    }
    found = {"device": device.name, "state": device.state, "since": moment(device.since)}
    found |= {"next_s": device.status.get("next_s")} if device.state == ASLEEP else {}
    found |= {"started": moment(device.started), **told}
    found["readings"] = [
        {"name": name, "unit": unit, "value": value, "time": moment(taken or device.read_at)}
        for name, unit, value, taken in device.readings
    ]
    return found | {"wrong": wrong(device)}


def _state(found):
    words = [found["state"]]
    if found["since"]:
        words.append(f"since {found['since']}")
    elif found["started"] and found["state"] == ONLINE:
        words.append(f"started {found['started']}")
    elif found.get("next_s"):
        words.append(f"next report {found['next_s']} s after the last")
    return ", ".join(words)


def _reading(found):
    readings = found["readings"]
    if not readings:
        return "not told yet"
    words = "  ".join(spelled(one["name"], one["unit"], one["value"]) for one in readings)
    return f"{words}, {readings[-1]['time'] or 'at an unknown time'}"


def words(device):
    """facts() of a Device, with one text for each column of a table."""
    found = facts(device)
    errors = found["wrong"]
    errors = "not told yet" if errors is None else "; ".join(errors) or "nothing"
    return found | {"state": _state(found), "reading": _reading(found), "wrong": errors}


def _text(value):
    return Text(visible(str(value)))


def of_all(devices):
    """A table with a row for each Device."""
    table = Table(*_TITLES.values())
    for found in map(words, devices):
        table.add_row(*(_text(found.get(name, "")) for name in _TITLES))
    return table


def rows(device):
    """{name: value} of all that is known of a Device."""
    told = words(device)
    names = ["device", "state", "board", "firmware", "micropython", "group", "reading", "wrong"]
    found = {_TITLES.get(name, name): told[name] for name in names if name in told}
    journal = device.health.get("journal")
    found |= {f"journal: {name}": value for name, value in journal.items()} if isinstance(journal, dict) else {}
    return found | {name: device.health[name] for name in ("heap", "rssi", "reset") if device.health.get(name)}


def of_one(device, configuration):
    """A table of all that is known of a Device. configuration: its fields without secrets, None: not known."""
    table = Table(show_header=False)
    known = {name: json.dumps(value, ensure_ascii=False) for name, value in (configuration or {}).items()}
    for name, value in (rows(device) | known).items():
        table.add_row(_text(name), _text(value))
    return table
