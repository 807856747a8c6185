"""Parquet files for other tools."""

import contextlib
import re

import pyarrow as pa
import pyarrow.parquet as parquet
from pyarrow.fs import FileSelector, LocalFileSystem

from inflight_tools.fleet.spark.storage import arrow_files

from . import latency
from .sketches import percentiles

SIZES = ("minute", "hour", "day")
_NAMES = (*(f"aggregates/size={size}" for size in SIZES), "devices", "missing")
_PART = re.compile(r"part-\d+\.parquet")
_ROWS = 1_000_000  # of `minutes` at once: their sketches are in memory
_P = ("p50", "p95", "p99")
# One row for each device, name, unit and size of measurement. The error of percentiles is at most 1.7 % of the rank.
_AGGREGATES = """
SELECT device, name, unit, date_trunc('{size}', minute) AS time, CAST(sum(count) AS BIGINT) AS count, min(min) AS min,
    max(max) AS max, sum(total) / sum(count) AS mean, list(sketch) AS sketches
FROM minutes WHERE hash(device) % {parts} = {part} GROUP BY ALL
"""


class NotWritten(Exception):
    """The files cannot be written. The text says why."""


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
    of_each = map(latency.of_devices(database).get, found["device"].to_pylist())
    told = [one and list(one.values()) for one in of_each]
    return found.append_column("latency_ms", pa.array(told, pa.list_(pa.float64())))


@contextlib.contextmanager
def _writing(to):
    """Makes an error of the folder `to` distinct from an error of the tables, which are read meanwhile."""
    try:
        yield
    except OSError as e:
        raise NotWritten(f"the export cannot be written to {to}: {e}") from None


def _check(filesystem, folder):
    """Raises ValueError if a folder of an export has files that are not of an export, which would be deleted."""
    for name in _NAMES:
        present = filesystem.get_file_info(FileSelector(f"{folder}/{name}", allow_not_found=True))
        if strange := [one.path for one in present if not (one.is_file and _PART.fullmatch(one.base_name))]:
            raise ValueError(f"{strange[0]} is not of an export, which replaces all in its folder: give another folder")


def write(database, to):
    """Writes aggregates/size=minute|hour|day, devices, and missing, below the folder or URI `to`, in place of an
    earlier export. The Database has the views of views.judge(). Raises ValueError if other files are in the way;
    NotWritten."""
    with _writing(to):
        filesystem, folder = arrow_files(to) if "://" in to else (LocalFileSystem(), to)
        _check(filesystem, folder)

    def save(name, tables):
        with _writing(to):
            filesystem.create_dir(f"{folder}/{name}")
            filesystem.delete_dir_contents(f"{folder}/{name}")
        for number, table in enumerate(tables):
            with _writing(to):
                parquet.write_table(table, f"{folder}/{name}/part-{number}.parquet", filesystem=filesystem)

    *sizes, devices, missing = _NAMES
    for name, size in zip(sizes, SIZES, strict=True):
        save(name, aggregates(database, size))
    save(devices, [_devices(database)])
    save(missing, [database.arrow("FROM missing ORDER BY device, epoch, lo")])
