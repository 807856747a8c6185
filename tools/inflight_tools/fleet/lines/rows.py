"""The columns that a line of a landing file becomes, as Arrow types."""

import pyarrow as pa

from .parse import COLUMNS

TIME = pa.timestamp("us", "UTC")
MEASUREMENT = pa.struct(
    [
        ("name", pa.string()),
        ("unit", pa.string()),
        ("time", TIME),
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
PROPERTIES = pa.struct(
    [
        ("payload_format", pa.int32()),
        ("expiry", pa.int64()),
        *((name, pa.string()) for name in ("content_type", "response_topic")),
        ("correlation", pa.binary()),
        ("user_properties", pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))),
    ]
)
_TYPES = {
    "received": TIME,
    "qos": pa.int32(),
    "dup": pa.bool_(),
    "retain": pa.bool_(),
    "epoch": pa.int64(),
    "seq": pa.int64(),
    "next_s": pa.int64(),
    "oldest": pa.int64(),
    "made": TIME,
    "up": pa.float64(),
    "boot": pa.int64(),
    "records": pa.list_(MEASUREMENT),
    "health": _HEALTH,
    "payload": pa.binary(),
    "properties": PROPERTIES,
}
SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in COLUMNS])
