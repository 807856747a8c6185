"""What an operator knows of devices, and no message says: registry.json beside the tables."""

import contextlib
import json
import os
from pathlib import Path

from inflight_tools.cache import write_atomic
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.lock import take_lock
from inflight_tools.fleet.spark.storage import files_in

NAME = "registry.json"
# Fields of a device: since when it is taken away, in s since 1970; how often it sends, in s; labels.
_NUMBERS, _TEXTS = ("retired", "interval_s"), ("group", "note")
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
    """{device: {field: value}} of the registry in a Folder of tables. Raises WrongTables."""
    try:
        found = json.loads(files.text(NAME))["devices"]
        right = all(_is_right(device, fields) for device, fields in found.items())
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        right = False
    if not right:
        raise WrongTables(f"{files.path(NAME)} is damaged: restore it, or delete it and name your devices again")
    return found


def change(root, device, field, value):
    """Notes the value of a field beside the tables in the folder `root`, None: takes it out. Raises ValueError if that
    is a URI, WrongTables, Busy, OSError."""
    if "://" in str(root):
        raise ValueError(f"{root}: change {NAME} in a folder of this machine, and upload it")
    if not _is_right(device, {} if value is None else {field: value}):
        raise ValueError(f"{device!r}: {field}: write whole characters of UTF-8, one at least")
    files = files_in(root)
    lock = take_lock(files.path(f".{NAME}.lock"), "another command changes the registry: try again")
    with contextlib.closing(os.fdopen(lock)):
        found = load(files)
        fields = {name: old for name, old in found.pop(device, {}).items() if name != field}
        fields |= {} if value is None else {field: value}
        found |= {device: fields} if fields else {}
        write_atomic(Path(files.path(NAME)), json.dumps({"devices": dict(sorted(found.items()))}, indent=1) + "\n")
