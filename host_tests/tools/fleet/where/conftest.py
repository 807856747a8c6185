"""Fixtures: tables of a small fleet, written without Spark."""

import datetime
import importlib.util
import json

import pytest

from host_tests.absent import absent

REASON = "" if importlib.util.find_spec("deltalake") else "Delta Lake is not installed: run `make setup-pipeline`"


def pytest_pycollect_makemodule(module_path, parent):
    return absent(parent, module_path, REASON)


AT = 1_760_000_000  # s: when the first message of a test is received


def _time(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def _minute(row):
    """The row of `minutes` of a measurement."""
    from datasketches import kll_doubles_sketch

    sketch, value = kll_doubles_sketch(200), row["value"]
    sketch.update(value)
    sums = {"count": 1, **dict.fromkeys(("total", "min", "max"), value), "sketch": sketch.serialize()}
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
            self._dead.append(
                letter | {"device": device, "epoch": epoch, "seq": seq, "reason": fields["problem"], "payload": b""}
            )

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

    def write(self, **how):
        import pyarrow as arrow
        from deltalake import write_deltalake

        time, number, text, yes = arrow.timestamp("us", "UTC"), arrow.int64(), arrow.string(), arrow.bool_()
        key = [("device", text), ("epoch", number), ("seq", number)]
        raw = [("received", time), ("by", text), ("topic", text), ("qos", arrow.int32()), ("dup", yes), *key]
        raw += [("kind", text), ("made", time), ("problem", text), ("oldest", number), ("first", yes)]
        raw += [("retain", yes), ("payload", arrow.binary()), ("state", text), ("next_s", number)]
        measured = [("received", time), ("time", time), ("name", text), ("unit", text), ("value", arrow.float64())]
        pairs = arrow.list_(arrow.struct([("name", text), ("value", text)]))
        given = [("payload_format", arrow.int32()), ("expiry", number), ("content_type", text)]
        given += [("response_topic", text), ("correlation", arrow.binary()), ("user_properties", pairs)]
        # Tables that an earlier version made have none of them.
        properties = given if any(name in row for row in self.raw for name, _ in given) else []
        counters = ("counters", arrow.map_(text, number))
        told = [(name, number) for name in ("journal_live", "journal_used", "journal_limit", "rssi", "heap")]
        damage = [*told, ("firmware", text), ("journal_damaged", number), ("journal_skipped", number)]
        one = arrow.struct([("lo", number), ("hi", number)])
        ranges = [{"device": d, "epoch": e, "ranges": found} for (d, e), found in self.ranges.items()]
        tables = {
            "raw": ([*raw, *properties], self.raw),
            "measurements": ([*key, *measured], self._measurements),
            "dead_letters": (
                [*raw[:1], *raw[2:3], *key, ("reason", text), ("payload", arrow.binary()), *properties[2:3]],
                self._dead,
            ),
            "health": ([*key, ("received", time), ("up", number), counters, *damage], self._health),
            "ledger": ([*key[:2], ("ranges", arrow.list_(one))], ranges),
        }
        if any("value" in row for row in self._measurements):
            sums = [("count", number), *((name, arrow.float64()) for name in ("total", "min", "max"))]
            sums = [key[0], *measured[2:4], ("minute", time), *sums, ("sketch", arrow.binary())]
            tables["minutes"] = (sums, [_minute(row) for row in self._measurements if "value" in row])
        for name, (fields, rows) in tables.items():
            write_deltalake(self.root / name, arrow.Table.from_pylist(rows, arrow.schema(fields)), **how)


@pytest.fixture
def tables(tmp_path):
    return Tables(tmp_path / "tables")
