"""Tables of a small fleet, row by row, written without Spark."""

import datetime
import json

import pyarrow as arrow
from deltalake import write_deltalake

from host_tests.tools.fleet.without_spark import SCHEMAS, sketch
from inflight_tools.fleet.collect.line import line

AT = 1_760_000_000  # s: when the first message of a test is received


def _time(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def _minute(row):
    """The row of `minutes` of a measurement."""
    value = row["value"]
    sums = {"count": 1, **dict.fromkeys(("total", "min", "max"), value), "sketch": sketch([value])}
    kept = {name: row[name] for name in ("device", "name", "unit")}
    return kept | {"minute": row["time"].replace(second=0, microsecond=0)} | sums


class Tables:
    """Tables in the folder `root`, with the columns that are read. add() adds rows, write() writes them."""

    def __init__(self, root):
        self.root = root
        self.raw, self._health, self._dead, self._measurements, self.ranges = [], [], [], [], {}

    def add(self, device, seq, s=0, oldest=None, epoch=7, kind="status", first=True, **fields):
        row = {"received": _time(AT + s), "by": "c", "topic": f"inflight/{device}/{kind}", "qos": 1, "dup": not first}
        row |= {"device": device, "epoch": epoch, "seq": seq, "kind": kind, "made": None, "problem": None}
        self.raw.append(row | {"oldest": oldest, "first": first} | fields)
        if seq is not None and first:
            self.ranges.setdefault((device, epoch), []).append({"lo": seq, "hi": seq})
        if row["kind"] == "telemetry":
            self.measure(device, seq, epoch=epoch)
        if fields.get("problem"):
            letter = {name: self.raw[-1].get(name) for name in ("received", "topic", "content_type")}
            letter |= {"device": device, "epoch": epoch, "seq": seq, "reason": fields["problem"], "payload": b""}
            self._dead.append(letter)

    def measure(self, device, seq, s=0, epoch=7, received=None, **fields):
        """A reading of the time s that arrived then, or when `received` says. fields: name, unit, value."""
        row = {"device": device, "epoch": epoch, "seq": seq, "time": _time(AT + s)}
        self._measurements.append(row | {"received": _time(AT + (s if received is None else received))} | fields)

    def marker(self, sent, s, run=1, n=None, by="c", **fields):
        body = {"sent": 1000 * (AT + sent), "run": run, "n": s if n is None else n}
        payload = json.dumps(body).encode()
        self.add(by, None, s, epoch=None, kind="collector", made=_time(AT + sent), by=by, payload=payload, **fields)

    def status(self, device, seq, s, oldest=None, **told):
        """A status message with what it tells, as the firmware publishes it."""
        payload = json.dumps(told).encode()
        self.add(device, seq, s, oldest, state=told["state"], retain=False, payload=payload)

    def health(self, device, seq, s, counters, damaged=0, skipped=0, up=60, epoch=7, oldest=None, **more):
        self.add(device, seq, s, oldest, epoch, "health")
        row = {"device": device, "epoch": epoch, "seq": seq, "received": _time(AT + s), "up": up}
        row |= {"counters": list(counters.items()), "journal_damaged": damaged, "journal_skipped": skipped}
        self._health.append(row | more)

    def write(self, without=(), **how):
        """without: columns that an earlier version did not have."""
        ranges = [{"device": d, "epoch": e, "ranges": found} for (d, e), found in self.ranges.items()]
        for one in ranges:
            mine = (row for row in self.raw if (row["device"], row["epoch"]) == (one["device"], one["epoch"]))
            one["live"] = min((row["seq"] for row in mine if not row.get("retain")), default=None)
        minutes = [_minute(row) for row in self._measurements if "value" in row]
        tables = {"raw": self.raw, "measurements": self._measurements, "dead_letters": self._dead}
        tables |= {"health": self._health, "ledger": ranges} | ({"minutes": minutes} if minutes else {})
        for name, rows in tables.items():
            schema = arrow.schema(field for field in SCHEMAS[name] if field.name not in without)
            write_deltalake(self.root / name, arrow.Table.from_pylist(rows, schema), **how)


def landed(number, s):
    """The line of a landing file with that message of attic, which was received at second `s`."""
    body = json.dumps({"seq": number, "epoch": 7, "state": "online", "oldest": 0}).encode()
    return line(1000 * (AT + s), "c", "inflight/attic/status", 1, False, False, body, 1 << 20)


def troubled(tables):
    """Number 1 of attic is lost. The journal of cellar is nearly full, it is in safe mode, and has sent its log; one of
    its messages is a dead letter, as is one of no device."""
    tables.status("attic", 0, 0, oldest=0, state="online", board="esp32", group="north", micropython="1.28.0")
    tables.status("attic", 2, 30, oldest=2, state="offline")
    tables.status("cellar", 0, 0, state="online", board="rp2", safe=True)
    full = {"journal_live": 9, "journal_used": 40_000, "journal_limit": 49_152}
    tables.health("cellar", 1, 20, {"accepted": 2}, **full)
    tables.add("cellar", 2, 25, kind="log", payload=json.dumps({"lines": ["first", "<b>second</b>"]}).encode())
    tables.add("cellar", 3, 27, kind="log", payload=b"no JSON", problem="not JSON")
    tables.add(None, None, 26, kind=None, problem="no device")
    for device, seq, state in (("attic", 3, "trial"), ("cellar", 4, "good")):
        tables.add(device, seq, 40, kind="release", payload=json.dumps({"release": 7, "state": state}).encode())
    tables.marker(60, 61)
    tables.write()
    return tables
