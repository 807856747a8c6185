"""Writes batches into a table at a URI, as the driver of `tables` does, but with Arrow in the place of Spark."""

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from deltalake import DeltaTable

from inflight_tools.fleet.spark import tables
from inflight_tools.fleet.spark.storage import Remote, arrow_files

ROWS, FILES = 30, 2  # of a batch
_START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


class Rows:
    """The rows of a batch, as far as a DataFrame is asked for them: rows.write.parquet(uri)."""

    def __init__(self, batch):
        self._batch = batch
        self.write = self

    def parquet(self, uri):
        files, folder = arrow_files(uri)
        first = self._batch * ROWS
        for part in range(FILES):
            numbers = range(first + part, first + ROWS, FILES)
            received = [_START + datetime.timedelta(seconds=number) for number in numbers]
            found = pa.table({"received": pa.array(received, pa.timestamp("us", "UTC")), "number": list(numbers)})
            pa.parquet.write_table(found, f"{folder}/part-{part}.parquet", filesystem=files)


def write(uri, notes, batches):
    """The file `notes` has the number of the batch that is being written. After a kill that batch is repeated."""
    tables.Storage = lambda spark, root: Remote(root)
    fields = [("received", pa.timestamp("us", "UTC")), ("number", pa.int64())]
    DeltaTable.create(f"{uri}/raw", pa.schema(fields), mode="ignore", configuration=tables._OPTIONS)
    table, notes = tables.Table(None, uri, "raw", ""), Path(notes)
    for batch in range(int(notes.read_text()) if notes.exists() else 0, int(batches)):
        new = notes.with_suffix(".new")
        new.write_text(str(batch))
        new.replace(notes)
        table.write(Rows(batch), batch)
