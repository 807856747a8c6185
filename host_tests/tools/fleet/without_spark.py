"""Tables without Spark: what its batches write of the same landing lines, but for readings that are dated later."""

import contextlib
import datetime
import json
import re
import zlib

import pyarrow as pa
import pyarrow.parquet as parquet
from datasketches import kll_doubles_sketch
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import AddAction, Transaction

from inflight_tools.fleet.collect.line import line
from inflight_tools.fleet.columns import FACTS, LEDGER, MINUTES, PAIRS, RANGES
from inflight_tools.fleet.lines.gathered import expanded
from inflight_tools.fleet.lines.parse import Topics, parse
from inflight_tools.fleet.lines.rows import MEASUREMENT
from inflight_tools.fleet.proof import Proof
from inflight_tools.fleet.query import views
from inflight_tools.fleet.query.database import Database
from inflight_tools.fleet.query.facts import gather

AT = 1_760_000_000_000  # ms: when the first message of a test is received
_TOPICS = Topics("inflight")
_KINDS = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "double": pa.float64(), "boolean": pa.bool_()}
_KINDS |= {"binary": pa.binary(), "timestamp": pa.timestamp("us", "UTC")}
_KINDS |= {f"map<string, {kind}>": pa.map_(pa.string(), _KINDS[kind]) for kind in ("string", "bigint")}
_KINDS[RANGES] = pa.list_(pa.struct([("lo", pa.int64()), ("hi", pa.int64())]))
_KINDS[PAIRS] = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
SCHEMAS = {
    name: pa.schema([(column, _KINDS[kind]) for column, kind in re.findall(r"`?(\w+)`? ([^,<]+(?:<.*?>+)?)", ddl)])
    for name, ddl in (FACTS | {"minutes": MINUTES, "ledger": LEDGER}).items()
}
_KEY = ("device", "epoch", "seq", "received")
_MINUTE = 60_000_000  # us


def delivery(topic, body, at=AT, **fields):
    """A line of a landing file."""
    body = body if isinstance(body, str) else json.dumps(body)
    whole = {"at": at, "by": "c", "topic": f"inflight/{topic}", "qos": 1, "dup": False, "retain": False, "text": body}
    return json.dumps(whole | fields) + "\n"


def telemetry(device, seq, value=20.0, epoch=7, at=AT, bt=None, **fields):
    """A delivery of one pack with one temperature."""
    first = {"bn": f"urn:dev:mac:{device}:", "bt": at / 1000 if bt is None else bt, "seq": seq, "epoch": epoch}
    return delivery(f"{device}/telemetry", [first | {"n": "temperature", "u": "Cel", "v": value}], at, **fields)


def health(device, seq, up=60, accepted=1, reset="power-on", epoch=7, at=AT, **fields):
    journal = {"live": 1, "used": 500, "limit": 4000, "erases": 3, "damaged": 0}
    body = {"seq": seq, "epoch": epoch, "up": up, "heap": 100_000, "journal": journal, "reset": reset, "outbox_full": 0}
    body |= {"counters": {"accepted": accepted, "resent": 2, "connects": 1, "outages": 1}, "firmware": "0.1.0"}
    return delivery(f"{device}/health", body | fields, at)


def row(topic, body, at, by="c", retain=False):
    """The row of a delivery that a collector received at `at`, in s."""
    text = json.dumps(body).encode()
    return parse(line(round(1000 * at), by, f"inflight/{topic}", 1, False, retain, text, 1 << 20), _TOPICS)


def exported(folder):
    """The rows of the Parquet files of an export, as dicts."""
    return parquet.read_table(folder).to_pylist()


def sketch(values):
    """The bytes of a sketch of these values."""
    made = kll_doubles_sketch(200)
    for value in values:
        made.update(value)
    return made.serialize()


class Fleet:
    """A fleet whose landing lines a test gives to land(). The tables are in `root`."""

    def __init__(self, folder):
        self.landing, self.root = folder / "landing", folder / "tables"
        self._lines, self._seen, self._batch = [], set(), -1

    def land(self, *lines):
        """One landing file."""
        self._lines += [line.encode() if isinstance(line, str) else line for line in lines]

    def run(self):
        """One batch of what has landed, also in files."""
        for path in sorted(self.landing.glob("*.ndjson")):
            self._lines += path.read_bytes().splitlines()
            path.unlink()
        self.batch([parse(one.rstrip(b"\n"), _TOPICS) for line in self._lines for one in expanded(line)])
        self._lines.clear()

    def batch(self, rows, measured=()):
        """One batch of the rows that parse() has made, and of more rows of `measurements`."""
        self._batch += 1
        raw = []
        for row in sorted(rows, key=lambda row: (*(row[name] or -1 for name in _KEY[1:]), bool(row["dup"]))):
            key = row["device"], row["epoch"], row["seq"]
            first = row["seq"] is None or key not in self._seen
            self._seen.add(key)
            digest = zlib.crc32(row["payload"])
            raw.append({**row, **(row["properties"] or {}), "first": first, "digest": digest})
        fresh = [row for row in raw if row["first"]]
        records = [field.name for field in MEASUREMENT]
        measurements = [
            {name: row[name] for name in (*_KEY, "up")} | {"place": place} | dict(zip(records, record, strict=True))
            for row in fresh
            for place, record in enumerate(row["records"] or ())
        ] + list(measured)
        self._write("raw", raw)
        self._write("measurements", measurements)
        self._write("minutes", _minutes(measurements))
        self._write("health", [{name: row[name] for name in _KEY} | row["health"] for row in fresh if row["health"]])
        self._write("dead_letters", [row | {"reason": row["problem"]} for row in fresh if row["problem"]])
        self._write("ledger", _ledger(raw))

    def _write(self, name, rows):
        if not rows and name != "ledger":
            return
        folder, path = self.root / name, f"parts/{self._batch}-0/part-0.parquet"
        DeltaTable.create(folder, Schema.from_arrow(SCHEMAS[name]), mode="ignore")
        (folder / path).parent.mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(rows, SCHEMAS[name]), folder / path)
        added = AddAction(path, (folder / path).stat().st_size, {}, 0, True, json.dumps({"numRecords": len(rows)}))
        told = CommitProperties(app_transactions=[Transaction("inflight", self._batch)])
        table = DeltaTable(folder)
        table.create_write_transaction([added], "append", table.schema(), commit_properties=told)

    def _tables(self):
        folders = [self.root / name for name in ("raw", "measurements", "health")]
        return [DeltaTable(folder) for folder in folders if folder.exists()]

    def merge(self):
        """Merges the files of a table to one."""
        for table in self._tables():
            table.optimize.compact()

    def forget(self, until):
        """Deletes the deliveries that were received before `until`, in s since 1970, as `compact --keep` does."""
        at = datetime.datetime.fromtimestamp(until, datetime.timezone.utc)
        self._tables()[0].delete(f"received < '{at.isoformat()}'")

    def rows(self, sql):
        """Rows of the tables, as dicts."""
        with Database(self.root) as database:
            return database.rows(sql)

    def numbers(self, table="raw", where="first AND seq IS NOT NULL"):
        """Sorted (device, epoch, seq) in a table."""
        return sorted(tuple(row.values()) for row in self.rows(f"SELECT device, epoch, seq FROM {table} WHERE {where}"))

    def count(self, table, what="count(*)"):
        (row,) = self.rows(f"SELECT CAST({what} AS BIGINT) AS many FROM {table}")
        return row["many"]

    def facts(self, **how):
        return gather(self.root, "inflight", **{"grace_s": 0, **how})

    @contextlib.contextmanager
    def database(self, *marks, until=0):
        """A Database with the views, by a Proof."""
        with Database(self.root) as database:
            views.define(database, Proof(marks, until), until)
            yield database


def _minutes(measurements):
    found = {}
    for row in measurements:
        if row["value"] is not None:
            undated = [row.get("up") is not None and row[name] for name in ("epoch", "seq", "up")]
            key = (row["device"], row["name"], row["unit"], row["time"] // _MINUTE * _MINUTE, *undated)
            found.setdefault(key, []).append(row["value"])
    names = ("device", "name", "unit", "minute", "epoch", "seq", "up")
    return [
        {name: None if one is False else one for name, one in zip(names, key, strict=True)}
        | {"count": len(values), "total": sum(values), "min": min(values), "max": max(values)}
        | {"sketch": sketch(values)}
        for key, values in found.items()
    ]


def _ledger(raw):
    parts = {}
    for row in raw:
        if row["seq"] is not None:
            parts.setdefault((row["device"], row["epoch"], row["seq"] >> 20), []).append(row)
    for (device, epoch, part), rows in parts.items():
        first = [row for row in rows if row["first"]]
        received = [row["received"] for row in first]
        late = [max(0, row["received"] - row["made"]) / 1000 for row in first if row["made"] is not None]
        odd = [row for row in first if any(record[3] in ("ahead", "behind") for record in row["records"] or ())]
        one = {"device": device, "epoch": epoch, "part": part, "ranges": _ranges(row["seq"] for row in first)}
        one |= {"repeated": len(rows) - len(first), "odd_clock": len(odd), "latency": sketch(late) if late else None}
        one |= {"first_received": min(received, default=None), "last_received": max(received, default=None)}
        one |= {"live": min((row["seq"] for row in rows if not row["retain"]), default=None)}
        one |= {"measurements": sum(len(row["records"] or ()) for row in first)}
        parts[device, epoch, part] = one | {"dead_letters": sum(bool(row["problem"]) for row in first)}
    return list(parts.values())


def _ranges(numbers):
    found = []
    for number in sorted(numbers):
        if found and found[-1]["hi"] == number - 1:
            found[-1]["hi"] = number
        else:
            found.append({"lo": number, "hi": number})
    return found
