r"""Messages in which a device has gathered readings while it had no connection, see firmware/batch.py: a line of one is
as good as a line for each row, with the SenML pack that the device would have published then.

    {"bt":1790000000,"seq":7,"epoch":1,"n":["t","rh"],"u":["Cel",null],"rows":[[0,21.5,40],[10,21.6,null]]}
"""

import json

MARK = rb'"text":"{\"bt\":'  # in a line of such a message
_NUMBER = int | float
_MOST = 1000  # rows, as records of a pack
_COLUMNS = 1000
_TIMES = 10  # A line becomes lines of so many times its bytes at most,
_ROW = 512  # beside so many for each row: a topic, properties, names and units stand in each of them


def _is_number(value):
    return isinstance(value, _NUMBER) and not isinstance(value, bool)


def _checked(body):
    """(names, units, rows) of a message. Raises ValueError."""
    names, units, rows = body["n"], body["u"], body["rows"]
    if not all(isinstance(one, list) for one in (names, units, rows)):
        raise ValueError("not a list")
    if not 0 < len(rows) <= _MOST or not 0 < len(names) == len(units) <= _COLUMNS:
        raise ValueError("too few, or too many")
    if not all(isinstance(row, list) and len(row) == 1 + len(names) and _is_number(row[0]) for row in rows):
        raise ValueError("a row that does not fit")
    if not all(one is None or isinstance(one, str) for one in (*names, *units)):
        raise ValueError("not text")
    if not isinstance(body["seq"], int) or not (_is_number(body["bt"]) and _is_number(body.get("up", 0))):
        raise ValueError("not a number")
    return names, units, rows


def _record(name, unit, value):
    kind = "vb" if isinstance(value, bool) else "vs" if isinstance(value, str) else "v"
    return {"n": name, **({"u": unit} if unit is not None else {}), kind: value}


def _packs(body, device):
    """Yields a SenML pack for each row."""
    names, units, rows = _checked(body)
    for number, (after, *values) in enumerate(rows):
        head = {"bn": f"urn:dev:mac:{device}:", "bt": body["bt"]}
        if "up" in body:
            head["up"] = round(body["up"] + after, 2)
        else:
            head["bt"] = round(body["bt"] + after, 3)
        head |= {"seq": body["seq"] + number, "epoch": body["epoch"]}
        known = zip(names, units, values, strict=True)
        records = [_record(*one) for one in known if one[2] is not None]
        yield [head | records[0], *records[1:]] if records else [head]


def expanded(line):
    """The lines (bytes) that a line stands for: itself, unless it is one of gathered readings. One that cannot be read,
    or would become too many bytes, is left as it is. Never raises."""
    if MARK not in line:
        return [line]
    try:
        found = json.loads(line)
        device = found["topic"].rsplit("/", 2)[-2]
        if not found["topic"].endswith("/telemetry"):
            return [line]
        lines, left = [], _TIMES * len(line)
        for pack in _packs(json.loads(found["text"]), device):
            text = json.dumps(pack, separators=(",", ":"))
            lines.append(json.dumps(found | {"text": text}, separators=(",", ":")).encode())
            left -= len(lines[-1]) - _ROW
            if left < 0:
                return [line]
        return lines
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError):
        return [line]
