"""SenML (RFC 8428), JSON packs: from what was sent to records that stand by themselves. Pure Python, no I/O."""

import math
import re

RELATIVE = 1 << 28  # smaller times are offsets from now (RFC 8428, 4.5.3)
_VERSION = 10
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9\-:./_]*")  # (RFC 8428, 4.5.1)
_NUMBERS = ("bt", "bv", "bs", "v", "s", "t", "ut")
_TEXTS = ("bn", "bu", "n", "u", "vs", "vd")
_VALUES = ("v", "vs", "vb", "vd")
_BASES = ("bn", "bt", "bu", "bv", "bs")


class Bad(ValueError):
    """A record or a pack that is not SenML; the text says why."""


def _number(name, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Bad(f"{name} is not a number")
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise Bad(f"{name} is out of range")
    return value


def _check(record):
    """The fields of a record that we know, with their types. Raises Bad."""
    if not isinstance(record, dict):
        raise Bad("not an object")
    fields = {name: _number(name, record[name]) for name in _NUMBERS if name in record}
    for name in _TEXTS:
        if name in record:
            if not isinstance(record[name], str):
                raise Bad(f"{name} is not text")
            fields[name] = record[name]
    if "vb" in record:
        if not isinstance(record["vb"], bool):
            raise Bad("vb is not true or false")
        fields["vb"] = record["vb"]
    for name in record:
        if name.endswith("_"):  # (4.4)
            raise Bad(f"{name[:40]} must be understood, and is not")
    if _number("bver", record.get("bver", _VERSION)) > _VERSION:
        raise Bad("bver is newer than this reader")
    return fields


def _resolved(fields, base):
    """(name, unit, time, v, vs, vb, vd, sum) of a record, None if it only sets base values."""
    values = [name for name in _VALUES if name in fields]
    if len(values) > 1:
        raise Bad("several values: " + ", ".join(values))
    has_value = bool(values) or "bv" in base
    if not has_value and "s" not in fields and "bs" not in base:
        if "n" in fields or not any(name in fields for name in _BASES):
            raise Bad("no value")
        return None
    name = base.get("bn", "") + fields.get("n", "")
    if not _NAME.fullmatch(name):
        raise Bad("no name" if not name else "a name with characters that are not allowed")
    number = None
    if "v" in fields or (has_value and not values):
        number = base.get("bv", 0.0) + fields.get("v", 0.0)
    total = base.get("bs", 0.0) + fields.get("s", 0.0) if "s" in fields or "bs" in base else None
    if any(n is not None and not math.isfinite(n) for n in (number, total)):
        raise Bad("v is out of range")
    time = base.get("bt", 0.0) + fields.get("t", 0.0)
    unit = fields.get("u", base.get("bu"))
    return name, unit, time, number, fields.get("vs"), fields.get("vb"), fields.get("vd"), total


def resolve(pack):
    """Resolves a pack, as json.loads() returns it (RFC 8428, 4.6). Returns (records, problems): records are tuples
    (name, unit, time, v, vs, vb, vd, sum) with None for what is not there, and time in s as the RFC has it, relative
    if it is below RELATIVE; problems tell of each record that was left out. Base values hold until they are replaced
    (4.1)."""
    if not isinstance(pack, list):
        return [], ["not an array of records"]
    records, problems, base = [], [], {}
    for place, record in enumerate(pack):
        try:
            fields = _check(record)
            base.update((name, fields[name]) for name in _BASES if name in fields)
            found = _resolved(fields, base)
            if found:
                records.append(found)
        except Bad as problem:
            problems.append(f"record {place}: {problem}")
    return records, problems
