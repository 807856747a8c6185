"""From a line of a landing file to a row. Pure Python, no I/O. Every line becomes a row; its `problem` says what is
wrong with it."""

import base64
import binascii
import json
import re

from . import properties
from .senml import RELATIVE, resolve

LONGEST = 64 * 1024  # bytes of payload: sixteen times the largest of a journal
MOST_RECORDS = 1000  # in a pack
LONGEST_DEVICE = 128  # characters: each record has them
_TIMES = 10  # names and units of records have so many times the bytes of their message, at most
# Times are in microseconds since 1970, as in the tables.
_LAST = 253_402_300_799_999_999  # the end of the year 9999: tables cannot store later times
OLDEST = 1_577_836_800_000_000  # 2020: no device is older
AHEAD = 86_400_000_000  # a day: clocks drift, and time zones are configured wrongly
_BIG = 1 << 32  # sequence numbers and epochs
_COUNT = 1 << 63
_LONGEST_S = 1e10  # of an uptime
_JOURNAL = ("live", "used", "limit", "erases", "damaged", "skipped")
_URN = re.compile(r"urn:dev:mac:[^:]*:(?=.)")  # the base name of devices; the topic has the device's id already


def _refuse(constant):
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)  # json.loads() would make one for each call


def _loads(text):
    """json.loads() for hostile text: strict, and raises only ValueError."""
    try:
        found = _DECODER.decode(text)
        if "\\u" in text:  # it may be a lone surrogate, which UTF-8 cannot encode
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair") from None


def _is_number(value, most):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < most


def _when(seconds, received):
    """(time, source) of a resolved SenML time. If the device's time cannot be right, it is the time of receipt."""
    relative = seconds < RELATIVE
    time = seconds * 1e6 + (received if relative else 0)
    if time > received + (0 if relative else AHEAD):
        return received, "ahead"
    if time < OLDEST:
        return received, "behind"
    return int(time), "receipt" if relative else "device"


def _uptime(row, pack):
    """Fills the columns that tell when undated readings were made: `up`, of readings without a time; `boot`, `up` and
    `made`, of a pack that dates readings. Returns a list of problems."""
    first = pack[0] if isinstance(pack, list) and pack and isinstance(pack[0], dict) else {}
    up, boot = first.get("up"), first.get("boot")
    if up is None and boot is None:
        return []
    if isinstance(up, bool) or not isinstance(up, (int, float)) or not 0 <= up < _LONGEST_S:
        return ["up is not a number of seconds"]
    if boot is None:
        row["up"] = up if row["records"] and row["records"][0][3] == "receipt" else None
        return []
    base, since = first.get("bt"), row["seq"]
    if since is None or not _is_number(boot, since + 1) or isinstance(base, bool) or not isinstance(base, (int, float)):
        return ["not a pack that dates readings"]
    made, clock = _when(base, row["received"])
    if clock == "device":
        row["boot"], row["up"], row["made"] = boot, up, made
    return []


def _measurements(pack, received, size):
    records, problems = resolve(pack[:MOST_RECORDS] if isinstance(pack, list) else pack, _TIMES * size)
    if isinstance(pack, list) and len(pack) > MOST_RECORDS:
        problems.append(f"{len(pack)} records, {MOST_RECORDS} are read")
    return [
        (_URN.sub("", name, 1), unit, *_when(time, received), *rest) for name, unit, time, *rest in records
    ], problems


def _whole(name, value, most=_COUNT):
    if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and -most <= value < most):
        raise ValueError(f"{name} is not a whole number")
    return value


def _text(name, value):
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is not text")
    return value


def _table(name, value, check):
    """The items of a JSON object, as pairs."""
    if value is None:
        return []
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return [(key, check(f"{name}.{key[:40]}", one)) for key, one in value.items()]


def _health(fields):
    """The columns of table `health` from a health message."""
    journal = fields.get("journal") or {}
    if not isinstance(journal, dict):
        raise ValueError("journal is not an object")
    found = {name: _whole(name, fields.get(name)) for name in ("up", "heap", "rssi", "outbox_full")}
    found |= {name: _text(name, fields.get(name)) for name in ("firmware", "wifi", "reset")}
    found |= {f"journal_{name}": _whole(f"journal.{name}", journal.get(name)) for name in _JOURNAL}
    found["journal_where"] = _text("journal.where", journal.get("where"))
    found["errors"] = _table("errors", fields.get("errors"), _text)
    found["counters"] = _table("counters", fields.get("counters"), _whole)
    found["wake"] = _table("wake", fields.get("wake"), _whole)
    return found


_KINDS = ("telemetry", "status", "health", "log", "release", "reply", "actuator", "collector")
_NAMED = ("reply", "actuator")  # a name comes behind these


class Topics:
    """Parses the topics below `root`."""

    def __init__(self, root):
        self._head = root + "/"

    def __call__(self, topic):
        """(device, kind, name). kind: one of _KINDS; None for any other topic."""
        device, _, rest = topic[len(self._head) :].partition("/")
        if not topic.startswith(self._head) or len(device) > LONGEST_DEVICE:
            return None, None, None
        kind, _, name = rest.partition("/")
        if not device or kind not in _KINDS or bool(name) != (kind in _NAMED):
            return device or None, None, None
        return device, kind, name or None


def _payload(line):
    text = line.get("text")
    if isinstance(text, str):
        return text.encode(), text
    try:
        return base64.b64decode(line["base64"], validate=True), None
    except (KeyError, TypeError, binascii.Error):
        raise ValueError("landing: neither text nor base64") from None


def _identity(body):
    """(epoch, seq) of a message; (None, None) if it has none. Raises ValueError."""
    first = body[0] if isinstance(body, list) and body else body
    if not isinstance(first, dict) or ("seq" not in first and "epoch" not in first):
        return None, None
    epoch, seq = first.get("epoch"), first.get("seq")
    if not _is_number(epoch, _BIG) or not _is_number(seq, _BIG):
        raise ValueError("seq and epoch are not two numbers below 2**32")
    return epoch, seq


def _oldest(row, body):
    """The lowest number that the broker had not completed when the device wrote the message; None if not told."""
    value = body.get("oldest")
    if value is not None and not (row["seq"] is not None and _is_number(value, row["seq"] + 1)):
        raise ValueError("oldest is not a number up to seq")
    return value


def _marker(row, body):
    """When the collector sent the marker, in microseconds since 1970."""
    sent = body.get("sent")
    if row["device"] != row["by"] or not _is_number(sent, row["received"] // 1000 + 1):
        raise ValueError("not a marker that this collector has sent")
    return sent * 1000


def _read(row, payload, text):
    """Fills `row` from the payload. Returns a list of problems."""
    if row["kind"] is None:
        return ["not a topic of ours"]
    if len(payload) > LONGEST:
        return [f"{len(payload)} bytes, {LONGEST} are read"]
    if text is None:
        return ["not UTF-8"]
    body = _loads(text)
    row["epoch"], row["seq"] = _identity(body)
    problems = []
    if row["kind"] == "telemetry":
        row["records"], problems = _measurements(body, row["received"], len(payload))
        if row["records"] and row["records"][0][3] == "device":
            row["made"] = row["records"][0][2]
        problems += _uptime(row, body)
    elif not isinstance(body, dict):
        return ["not an object"]
    elif row["kind"] == "collector":
        row["epoch"] = row["seq"] = None
        row["made"] = _marker(row, body)
        return []
    else:
        row["oldest"] = _oldest(row, body)
    if row["kind"] == "health":
        row["health"] = _health(body)
    elif row["kind"] == "status":
        row["state"] = _text("state", body.get("state"))
        row["next_s"] = _whole("next_s", body.get("next_s"), _BIG)
    # A will has no number: the broker publishes it.
    if row["seq"] is None and (row["kind"], row["state"]) != ("status", "offline"):
        row["records"] = row["health"] = None  # without a number a repetition cannot be detected
        problems.append("no seq and epoch")
    return problems


def _header(row, line):
    at = line.get("at")
    if not _is_number(at, _LAST // 1000):
        raise ValueError("landing: at is no time")
    row["received"] = at * 1000
    for name, kind in (("by", str), ("topic", str), ("dup", bool), ("retain", bool)):
        if not isinstance(line.get(name), kind):
            raise ValueError(f"landing: {name} is missing")
        row[name] = line[name]
    if not _is_number(line.get("qos"), 3):  # true, or a large number, would not fit the column, and stop the stream
        raise ValueError("landing: qos is not 0, 1 or 2")
    row["qos"] = line["qos"]


def parse(line, topics):
    """Returns a line (bytes) as a dict with a key for each of COLUMNS. `topics`: a Topics. Never raises."""
    row = dict.fromkeys(COLUMNS)
    problems = None
    payload = line
    try:
        line = _loads(line.decode())
        if not isinstance(line, dict):
            raise ValueError("landing: not an object")
        _header(row, line)
        odd = []
        if "properties" in line:
            row["properties"], odd = properties.read(line["properties"])
        payload, body = _payload(line)
        row["device"], row["kind"], row["name"] = topics(row["topic"])
        problems = _read(row, payload, body)
        if line.get("truncated"):
            problems = [f"{line.get('length')} bytes, the collector keeps {len(payload)}"]
        problems += odd
    except ValueError as problem:
        problems = [str(problem)]
    if problems:
        row["problem"] = "; ".join(problems)[:500]
    if row["seq"] is None:
        row["epoch"] = None
    row["payload"] = payload
    return row


COLUMNS = (
    *("received", "by", "topic", "qos", "dup", "retain", "device", "kind", "name", "epoch", "seq"),
    *("state", "next_s", "oldest", "made", "up", "boot", "records", "health", "problem", "payload", "properties"),
)
