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
# Fields of a device: since when it is taken away, in s since 1970; how long it may send nothing, in s; labels.
FIELDS = {"retired": (int, float), "interval_s": (int, float), "group": (str,), "note": (str,)}


def load(files):
    """{device: {field: value}} of the registry in a Folder of tables. Raises WrongTables."""
    try:
        found = json.loads(files.text(NAME))["devices"]
        right = all(type(value) in FIELDS[field] for fields in found.values() for field, value in fields.items())
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError, AttributeError):
        right = False
    if not right:
        raise WrongTables(f"{files.path(NAME)} is damaged: restore it, or delete it and name your devices again")
    return found


def change(root, device, field, value):
    """Notes the value of a field beside the tables in the folder `root`, None: takes it out. Raises ValueError if that
    is a URI, WrongTables, Busy, OSError."""
    if "://" in str(root):
        raise ValueError(f"{root}: change {NAME} in a folder of this machine, and upload it")
    files = files_in(root)
    lock = take_lock(files.path(f".{NAME}.lock"), "another command changes the registry: try again")
    with contextlib.closing(os.fdopen(lock)):
        found = load(files)
        fields = {name: old for name, old in found.pop(device, {}).items() if name != field}
        fields |= {} if value is None else {field: value}
        found |= {device: fields} if fields else {}
        write_atomic(Path(files.path(NAME)), json.dumps({"devices": dict(sorted(found.items()))}, indent=1) + "\n")
