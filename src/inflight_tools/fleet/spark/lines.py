"""Lines of landing files to rows, in Spark's Python workers: parse() for Arrow batches."""

import pyarrow as pa

from .parse import COLUMNS, Topics, parse

_TIME = pa.timestamp("us", "UTC")
_MEASUREMENT = pa.struct(
    [
        ("name", pa.string()),
        ("unit", pa.string()),
        ("time", _TIME),
        ("clock", pa.string()),
        ("value", pa.float64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("data", pa.string()),
        ("sum", pa.float64()),
    ]
)
_HEALTH = pa.struct(
    [
        *((name, pa.int64()) for name in ("up", "heap", "rssi", "outbox_full")),
        *((name, pa.string()) for name in ("firmware", "wifi", "reset", "journal_where")),
        *((f"journal_{name}", pa.int64()) for name in ("live", "used", "limit", "erases", "damaged", "skipped")),
        ("errors", pa.map_(pa.string(), pa.string())),
        ("counters", pa.map_(pa.string(), pa.int64())),
        ("wake", pa.map_(pa.string(), pa.int64())),
    ]
)
_TYPES = {
    "received": _TIME,
    "qos": pa.int32(),
    "dup": pa.bool_(),
    "retain": pa.bool_(),
    "epoch": pa.int64(),
    "seq": pa.int64(),
    "next_s": pa.int64(),
    "oldest": pa.int64(),
    "made": _TIME,
    "records": pa.list_(_MEASUREMENT),
    "health": _HEALTH,
    "payload": pa.binary(),
}
SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in COLUMNS])


def reader(root):
    """Returns a function for DataFrame.mapInArrow(): from lines of landing files, as bytes, to rows of SCHEMA. `root`:
    of the devices' topics."""

    def read(batches):
        topics = Topics(root)
        for batch in batches:
            rows = [parse(line, topics) for line in batch.column(0).to_pylist()]
            columns = [pa.array([row[field.name] for row in rows], field.type) for field in SCHEMA]
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    return read
