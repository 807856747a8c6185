"""What an operator knows of devices, and no message says: registry.json beside the tables."""

import contextlib
import graphlib
import json
import os
from pathlib import Path

from inflight_tools.cache import write_atomic
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.lock import take_lock
from inflight_tools.fleet.spark.storage import files_in

NAME = "registry.json"
RENAMED = "renamed"
# Fields of a device: since when it is taken away, in s since 1970; how often it sends, in s; labels; its next name.
_NUMBERS, _TEXTS = ("retired", "interval_s"), ("group", "note", RENAMED)
_MOST = 1e11


def _is_right(device, fields):
    """Whether DuckDB and people can read it: no half characters, no NaN."""
    numbers = [value for field, value in fields.items() if field in _NUMBERS]
    texts = [device, *(value for field, value in fields.items() if field in _TEXTS)]
    return (
        len(numbers) + len(texts) == len(fields) + 1
        and all(type(number) in (int, float) and 0 < number < _MOST for number in numbers)
        and all(type(text) is str and text and text.encode("utf-8", "ignore").decode() == text for text in texts)
    )


def load(files):
    """{name of a device: {field: value}} of the registry in a Folder of tables. Raises WrongTables."""
    try:
        found = json.loads(files.text(NAME))["devices"]
        right = all(_is_right(device, fields) for device, fields in found.items())
        names(found)
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        right = False
    if not right:
        raise WrongTables(f"{files.path(NAME)} is damaged: restore it, or delete it and name your devices again")
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


def merged(found, known):
    """{present name: {field: value}}: what was said of a later name goes before. known: as names() returns it."""
    devices = {}
    for name in sorted(found, key=lambda name: -known.get(name, [name]).index(name)):
        fields = {field: value for field, value in found[name].items() if field != RENAMED}
        devices.setdefault(known.get(name, [name])[0], {}).update(fields)
    return devices


@contextlib.contextmanager
def changing(root, device, fields):
    """Yields what load() returns of the tables in the folder `root`, to be changed by `fields` of a device, and stores
    it. Raises ValueError if that is a URI, or these cannot be stored; WrongTables, Busy, OSError."""
    if "://" in str(root):
        raise ValueError(f"{root}: change {NAME} in a folder of this machine, and upload it")
    if not _is_right(device, fields):
        raise ValueError(f"{device!r}: {', '.join(fields)}: write whole characters of UTF-8, one at least")
    files = files_in(root)
    lock = take_lock(files.path(f".{NAME}.lock"), "another command changes the registry: try again")
    with contextlib.closing(os.fdopen(lock)):
        found = load(files)
        yield found
        kept = {name: found[name] for name in sorted(found) if found[name]}
        write_atomic(Path(files.path(NAME)), json.dumps({"devices": kept}, indent=1) + "\n")
