"""SenML (RFC 8428), JSON packs: resolved records from what was sent. Pure Python, no I/O."""

import math
import re

RELATIVE = 1 << 28  # smaller times are offsets from now (RFC 8428, 4.5.3)
LARGEST = 1e100  # of a value or a sum, positive or negative: more of them than there will ever be add up in a double
_VERSION = 10
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9\-:./_]*")  # (RFC 8428, 4.5.1)
_NUMBERS = frozenset(("bt", "bv", "bs", "v", "s", "t", "ut"))
_TIMES = frozenset(("bt", "t", "ut"))
_TEXTS = frozenset(("bn", "bu", "n", "u", "vs", "vd"))
_VALUES = frozenset(("v", "vs", "vb", "vd"))
_BASES = frozenset(("bn", "bt", "bu", "bv", "bs"))


_RANGE = f", {LARGEST:g} at most"


class Bad(ValueError):
    """The record is not SenML. The text says why."""


def _number(name, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Bad(f"{name} is not a number")
    try:
        value = float(value)
        if math.isfinite(value) if name in _TIMES else abs(value) <= LARGEST:
            return value
    except OverflowError:
        pass
    raise Bad(f"{name} is out of range{'' if name in _TIMES else _RANGE}")


def _check(record):
    """Returns the known fields of a record, with their types checked. Raises Bad."""
    if not isinstance(record, dict):
        raise Bad("not an object")
    fields = {}
    for name, value in record.items():
        if name in _NUMBERS:
            fields[name] = _number(name, value)
        elif name in _TEXTS:
            if not isinstance(value, str):
                raise Bad(f"{name} is not text")
            fields[name] = value
        elif name == "vb":
            if not isinstance(value, bool):
                raise Bad("vb is not true or false")
            fields[name] = value
        elif name == "bver":
            if _number(name, value) > _VERSION:
                raise Bad("bver is newer than this reader")
        elif name.endswith("_"):  # (4.4)
            raise Bad(f"{name[:40]} must be understood, and is not")
    return fields


def _resolved(fields, base):
    """(name, unit, time, v, vs, vb, vd, sum) of a record, None if it only sets base values."""
    values = _VALUES & fields.keys()
    if len(values) > 1:
        raise Bad("several values: " + ", ".join(sorted(values)))
    has_value = bool(values) or "bv" in base
    has_sum = "s" in fields or "bs" in base
    if not has_value and not has_sum:
        if "n" in fields or not _BASES & fields.keys():
            raise Bad("no value")
        return None
    name = base.get("bn", "") + fields.get("n", "")
    if not _NAME.fullmatch(name):
        raise Bad("no name" if not name else "a name with characters that are not allowed")
    has_number = "v" in fields or (has_value and not values)
    number = base.get("bv", 0.0) + fields.get("v", 0.0) if has_number else None
    total = base.get("bs", 0.0) + fields.get("s", 0.0) if has_sum else None
    for value in (number, total):
        if value is not None and abs(value) > LARGEST:
            raise Bad(f"v is out of range{_RANGE}")
    time = base.get("bt", 0.0) + fields.get("t", 0.0)
    unit = fields.get("u", base.get("bu"))
    return name, unit, time, number, fields.get("vs"), fields.get("vb"), fields.get("vd"), total


def resolve(pack, most):
    """Resolves a pack (RFC 8428, 4.6) that json.loads() has returned. Returns (records, problems). most: characters of
    names and units; what is behind them is left out, since a base name stands in each record.

    records: tuples (name, unit, time, v, vs, vb, vd, sum), with None for missing values. Times are in seconds, relative
    to now if they are below RELATIVE. problems: a text for each record that was left out. Base values hold until they
    are replaced (4.1)."""
    if not isinstance(pack, list):
        return [], ["not an array of records"]
    records, problems, base = [], [], {}
    for number, record in enumerate(pack):
        try:
            fields = _check(record)
            for name in _BASES & fields.keys():
                base[name] = fields[name]
            if found := _resolved(fields, base):
                most -= len(found[0]) + len(found[1] or "")
                if most < 0:
                    problems.append(f"record {number}: names and units are too long for so many records")
                    break
                records.append(found)
        except Bad as problem:
            problems.append(f"record {number}: {problem}")
    return records, problems
