"""What an operator knows of devices, and no message says: registry.json beside the tables."""

import contextlib
import graphlib
import json
import os
import re
from pathlib import Path

from inflight_tools.cache import write_atomic
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.lines.parse import LONGEST_DEVICE
from inflight_tools.fleet.lock import take_lock
from inflight_tools.fleet.spark.storage import files_in

NAME = "registry.json"
RENAMED = "renamed"
# Fields of a device: since when it is taken away, in s since 1970; how often it sends, in s; labels; its next name.
_NUMBERS, _TEXTS = ("retired", "interval_s"), ("group", "note", RENAMED)
_MOST = 1e11
# A level of a topic that brokers take: without wildcards, control characters and half characters.
_DEVICE = re.compile(rf"[^/+#\x00-\x1f\x7f-\x9f\ud800-\udfff]{{1,{LONGEST_DEVICE}}}")


def _check(device, fields):
    """Raises ValueError if no device can have the name, or DuckDB and people cannot read a value."""
    for name in (device, fields.get(RENAMED, device)):
        if type(name) is not str or not _DEVICE.fullmatch(name):
            allowed = f"1 to {LONGEST_DEVICE} characters, without /, +, # and control characters"
            raise ValueError(f"{name!r:.60} is no name of a device: write {allowed}")
    for field, value in fields.items():
        number = field in _NUMBERS and type(value) in (int, float) and 0 < value < _MOST
        text = field in _TEXTS and type(value) is str and value.encode("utf-8", "ignore").decode() == value != ""
        if not (number or text):
            allowed = f"a number up to {_MOST:.0e}" if field in _NUMBERS else "whole characters of UTF-8, one at least"
            raise ValueError(f"{device}: {field} {value!r:.60}: write {allowed}")


def load(files):
    """{name of a device: {field: value}} of the registry in a Folder of tables. Raises WrongTables."""
    try:
        found = json.loads(files.text(NAME))["devices"]
        for device, fields in found.items():
            _check(device, fields)
        names(found)
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        why = "is damaged: restore it, or delete it and name your devices again"
        raise WrongTables(f"{files.path(NAME)} {why}") from None
    return found


def names(found):
    """{name: [present name, earlier name, ...]} of devices that were renamed, for each of their names. found: as load()
    returns it. Raises ValueError if names make a circle."""
    to = {name: fields[RENAMED] for name, fields in found.items() if RENAMED in fields}
    known = {}
    for name in graphlib.TopologicalSorter({old: [new] for old, new in to.items()}).static_order():
        known[name] = known[to[name]] if name in to else []
        known[name].append(name)
    return known


def hops(known):
    """{name: how many names ago the device had it}. known: as names() returns it."""
    devices = {mine[0]: mine for mine in known.values()}
    return {name: n for mine in devices.values() for n, name in enumerate(mine)}


def merged(found, known):
    """{present name: {field: value}}: what was said of a later name goes before. known: as names() returns it."""
    devices, ago = {}, hops(known)
    for name in sorted(found, key=lambda name: -ago.get(name, 0)):
        fields = {field: value for field, value in found[name].items() if field != RENAMED}
        devices.setdefault(known.get(name, [name])[0], {}).update(fields)
    return devices


@contextlib.contextmanager
def changing(root, device, fields):
    """Yields what load() returns of the tables in the folder `root`, to be changed by `fields` of a device, and stores
    it. Raises ValueError if that is a URI, or these cannot be stored; WrongTables, Busy, OSError."""
    if "://" in str(root):
        raise ValueError(f"{root}: change {NAME} in a folder of this machine, and upload it")
    _check(device, fields)
    files = files_in(root)
    lock = take_lock(files.path(f".{NAME}.lock"), "another command changes the registry: try again")
    with contextlib.closing(os.fdopen(lock)):
        found = load(files)
        yield found
        kept = {name: found[name] for name in sorted(found) if found[name]}
        write_atomic(Path(files.path(NAME)), json.dumps({"devices": kept}, indent=1) + "\n")
