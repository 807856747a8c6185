"""Parquet files for other tools."""

import pyarrow as pa
import pyarrow.parquet as parquet
from pyarrow.fs import LocalFileSystem

from inflight_tools.fleet.spark.storage import arrow_files

from . import latency
from .sketches import percentiles

SIZES = ("minute", "hour", "day")
_ROWS = 1_000_000  # of `minutes` at once: their sketches are in memory
_P = ("p50", "p95", "p99")
# One row for each device, name, unit and size of measurement. The error of percentiles is at most 1.7 % of the rank.
_AGGREGATES = """
SELECT device, name, unit, date_trunc('{size}', minute) AS time, CAST(sum(count) AS BIGINT) AS count, min(min) AS min,
    max(max) AS max, sum(total) / sum(count) AS mean, list(sketch) AS sketches
FROM minutes WHERE hash(device) % {parts} = {part} GROUP BY ALL
"""


def aggregates(database, size):
    """Yields Arrow tables."""
    parts = 1 + database.row("SELECT count(*) AS many FROM minutes")["many"] // _ROWS
    for part in range(parts):
        found = database.arrow(_AGGREGATES.format(size=size, parts=parts, part=part))
        told = [percentiles(sketches) or (None,) * len(_P) for sketches in found["sketches"].to_pylist()]
        found = found.drop_columns("sketches")
        for name, column in zip(_P, zip(*told, strict=True) if told else ((),) * len(_P), strict=True):
            found = found.append_column(name, pa.array(column, pa.float64()))
        yield found


def _devices(database):
    found = database.arrow("FROM devices ORDER BY device")
    known = latency.of_devices(database)
    of_each = map(known.get, found["device"].to_pylist())
    told = [one and list(one.values()) for one in of_each]
    return found.append_column("latency_ms", pa.array(told, pa.list_(pa.float64())))


def write(database, to):
    """Writes aggregates/size=minute|hour|day, devices, and missing, below the folder or URI `to`. The Database has the
    views of views.judge()."""
    filesystem, folder = arrow_files(to) if "://" in to else (LocalFileSystem(), to)

    def save(name, tables):
        filesystem.create_dir(f"{folder}/{name}")
        filesystem.delete_dir_contents(f"{folder}/{name}")
        for number, table in enumerate(tables):
            parquet.write_table(table, f"{folder}/{name}/part-{number}.parquet", filesystem=filesystem)

    for size in SIZES:
        save(f"aggregates/size={size}", aggregates(database, size))
    save("devices", [_devices(database)])
    save("missing", [database.arrow("FROM missing ORDER BY device, epoch, lo")])
