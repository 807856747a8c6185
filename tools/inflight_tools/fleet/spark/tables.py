"""The tables, in the Delta Lake format: Spark writes Parquet files, delta-rs commits them.

Exactly once
------------
- A micro-batch writes its files to `parts/N-RANDOM`, and commits them with its number N as an application transaction.
  A batch that is repeated after a crash is not written again.
- Files are durable before the commit that names them, and a commit is before the next one: of this table, or of one
  that is written later. So a power cut may leave a last commit torn, and nothing else; repair.py removes it.
- A batch adds to the ledger how many rows it has written into each table, and the names of its landing files. So what a
  table lacks is found at the next start.
- Files without a commit are no part of the table: those of a driver that was killed. vacuum() deletes them.
- merge() commits larger files and the removal of the smaller ones together, date() files with other rows and the
  removal of those with the old ones. So a reader sees each row once.
"""

import contextlib
import itertools
import json
import math
import secrets
import time

from pyspark.sql import functions as F

from inflight_tools.fleet.delta import (
    BATCHES,
    GONE,
    LANDED,
    LOG,
    UNDATED,
    batch_of,
    counted,
    last_batch,
    opened,
    rows_written,
)

from . import statistics
from .storage import Storage

_MERGES = "inflight-merge"  # name of the application transactions; batches have another
_LARGE = 64 << 20  # bytes; a smaller file is merged with others
# Merged files have the rows of a device together, in groups of so many bytes: a query for one device reads few of them.
_CLUSTERED = ("device", "epoch", "seq", "name", "minute")
_GROUP = 16 << 20
_CHECKPOINTS = 50  # commits between two checkpoints of a log
_RETRIES = 20  # of a commit, when others commit meanwhile
# Bytes of files up to which one task computes their rows, and this process writes them. For few rows Spark would plan,
# exchange and commit for ten times as long as it computes.
FEW = 1 << 20
# To make Java of a query, and to compile it, takes longer than few rows do.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
KEPT_H = 24  # hours for which files stay that are in no commit, or were removed: a reader may still use them
_OPTIONS = {
    "delta.checkpointInterval": str(_CHECKPOINTS),
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": f"interval {KEPT_H} hours",
}
# Readers must know which columns have no statistics: delta-rs finds nothing by a column that should have some.
_WITH_STATISTICS = {"delta.dataSkippingStatsColumns": statistics.TIME}


@contextlib.contextmanager
def interpreted(spark):
    """A context in which Spark interprets its queries."""
    before = {name: spark.conf.get(name) for name in INTERPRETED}
    try:
        for name, value in INTERPRETED.items():
            spark.conf.set(name, value)
        yield spark
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


class Table:
    """The table `name` in the folder or URI `root`. `schema`: a DDL string. `fold`: for a table of partial sums, the
    function that adds them up."""

    def __init__(self, spark, root, name, schema, fold=None):
        self.name = name
        self._spark, self._schema, self._fold = spark, schema, fold
        self._root = Storage(spark, root)
        self._files = Storage(spark, self._root.path(name))

    def open(self):
        """The DeltaTable as it is now, None if there is none. Raises WrongTables."""
        return opened(self._root, self.name)

    def create(self):
        """Makes the table if it is missing, and adds columns that it lacks, durably."""
        from deltalake import DeltaTable, Schema
        from pyspark.sql.types import StructType

        wanted, table = StructType.fromDDL(self._schema), self.open()
        if table is None:
            schema = Schema.from_json(wanted.json())
            options = _OPTIONS | (_WITH_STATISTICS if statistics.TIME in wanted.names else {})
            DeltaTable.create(self._root.path(self.name), schema, mode="ignore", configuration=options)
            self._root.sync(f"{self.name}/{LOG}")
            return
        if statistics.TIME in wanted.names and not _WITH_STATISTICS.items() <= table.metadata().configuration.items():
            with self._settling(table) as hooks:
                table.alter.set_table_properties(_WITH_STATISTICS, post_commithook_properties=hooks)
        present = {field.name for field in table.schema().fields}
        if missing := [field for field in wanted.fields if field.name not in present]:
            with self._settling(table) as hooks:
                fields = Schema.from_json(StructType(missing).json()).fields
                table.alter.add_columns(fields, post_commithook_properties=hooks)

    def write(self, rows, batch, undated=False, landed=None, more=(), before=None):
        """Writes the rows of batch number `batch`, unless the table has that batch. Returns how many rows of it the
        table has. undated: devices may still date some of the rows, those that have `up`. landed: the names of the
        batch's landing files. more: other application transactions. before: what open() has returned before. The rows
        are a DataFrame, or an Arrow table of few rows."""
        table = before or self.open()
        if batch <= last_batch(table):
            return sum(file["num_records"] for file in _files_of(table) if batch_of(file["path"]) == batch)
        parts = self._split(table, rows, batch) if undated else self._part(table, rows, batch)
        self.commit(table, parts, [], (BATCHES, batch), *more, landed=landed)
        return _rows_of(parts)

    def date(self, clocks, changed):
        """Replaces the rows that `clocks`, a DataFrame, dates. changed(rows, clocks): with their time."""
        from deltalake.exceptions import CommitFailedError

        for left in reversed(range(_RETRIES)):
            try:
                return self._date(clocks, changed)
            except CommitFailedError:  # files were merged meanwhile
                if not left:
                    raise

    def _date(self, clocks, changed):
        table = self.open()
        files = [file for file in _files_of(table) if UNDATED in file["path"]]
        if not files:
            return
        rows = self._read(files).withColumn("file", F.input_file_name())
        found = changed(rows, clocks).where("up IS NULL").select("file").distinct().collect()
        names = {file.rpartition("/")[2] for (file,) in found}
        if chosen := [file for file in files if file["path"].rpartition("/")[2] in names]:
            rows = changed(self._read(chosen), clocks).select(*rows.columns[:-1])
            parts = self._split(table, rows, max(batch_of(file["path"]) for file in chosen))
            self.commit(table, parts, chosen, (_MERGES, table.version()))

    def _split(self, table, rows, batch):
        rows = rows.persist()
        try:
            parts = self._part(table, rows.where("up IS NULL"), batch)
            return parts + self._part(table, rows.where("up IS NOT NULL"), batch, UNDATED)
        finally:
            rows.unpersist()

    def last_batch(self):
        """The highest number of a batch, -1 if there is none."""
        return last_batch(self.open())

    def rows_written(self, last):
        """How many rows the batches up to number `last` have written."""
        return rows_written(self.open(), last)

    def read(self):
        """A DataFrame of all rows."""
        return self._folded(self.parts(self.open()))

    def parts(self, table):
        """The same, of what open() has returned: partial sums as they were written."""
        return self._read(_files_of(table))

    def _folded(self, rows):
        return self._fold(rows) if self._fold else rows

    def _read(self, files):
        if not files:
            return self._spark.createDataFrame([], self._schema)
        return self._spark.read.schema(self._schema).parquet(*(self._files.path(file["path"]) for file in files))

    def remove(self, batch):
        """Removes the files of batch number `batch`, which must not be merged."""
        table = self.open()
        if files := [file for file in _files_of(table) if batch_of(file["path"]) == batch]:
            self.commit(table, [], files, (_MERGES, table.version()))

    def merge(self, last, oldest=None, time=statistics.TIME):
        """Merges small files of batches up to number `last`. oldest: a datetime; deletes rows whose column `time` is
        before. Returns how many files were replaced."""
        return sum(self._merge(last, oldest, time, kind) for kind in ("", UNDATED))

    def _merge(self, last, oldest, time, kind):
        table = self.open()
        files = [one for one in _files_of(table) if batch_of(one["path"]) <= last]
        files = [one for one in files if (UNDATED in one["path"]) == bool(kind)]
        chosen = [file for file in files if oldest and _is_before(self._first(table, file, time), oldest)]
        small = [file for file in files if file["size_bytes"] < _LARGE and file not in chosen]
        if chosen or len(small) > 1:
            chosen += small
        if not chosen:
            return 0
        size = sum(file["size_bytes"] for file in chosen)
        few = self._fold and size <= FEW  # of other tables a small file may be many rows: their payloads may be alike
        rows = self._read(chosen)
        if oldest:
            rows = rows.where(rows[time].isNull() | (rows[time] >= oldest))
        if few:
            rows = rows.coalesce(1)
        rows = self._folded(rows).coalesce(math.ceil(size / (2 * _LARGE)))
        if order := [name for name in _CLUSTERED if name in rows.columns]:
            rows = rows.sortWithinPartitions(order)
        if few:
            with interpreted(self._spark):
                rows = rows.toArrow()
        part = self._part(table, rows, last, kind, data_change=bool(oldest))
        gone = (counted(table, GONE) or 0) + sum(file["num_records"] for file in chosen) - _rows_of(part)
        self.commit(table, part, chosen, (_MERGES, table.version()), (GONE, gone), data_change=bool(oldest))
        return len(chosen)

    def _first(self, table, file, time):
        """The least `time` of the rows of a file of the table, None if that is unknown. The log has it for one column,
        otherwise it is in the file."""
        if time == statistics.TIME:
            return file.get(f"min.{time}")
        from deltalake.fs import DeltaStorageHandler

        with DeltaStorageHandler.from_table(table._table).open_input_file(file["path"]) as opened_file:
            return statistics.least(opened_file, time)

    def newest(self):
        """When the newest row was received, as the log has it: a datetime in UTC, None if it does not tell."""
        told = (file.get(f"max.{statistics.TIME}") for file in _files_of(self.open()))
        return max(filter(None, told), default=None)

    def vacuum(self, hours=KEPT_H):
        """Deletes files that have been in no commit, or removed, for so many hours."""
        table = self.open()
        if table is None:
            return
        how = {"dry_run": False, "enforce_retention_duration": False, "full": True}
        with self._settling(table) as hooks:
            table.vacuum(hours, post_commithook_properties=hooks, **how)
        for name, (_, changed) in self._files.glob("parts/*").items():
            if changed < time.time() - 3600 * hours and not self._files.glob(f"parts/{name}/*.parquet"):
                self._files.delete(f"parts/{name}")

    def _part(self, table, rows, batch, kind="", data_change=True):
        """Writes Parquet files, durably. Returns the actions that add them to the table."""
        import pyarrow.parquet
        from deltalake.fs import DeltaStorageHandler
        from deltalake.transaction import AddAction

        storage = DeltaStorageHandler.from_table(table._table)
        folder = f"parts/{batch}-{secrets.token_hex(4)}{kind}"
        try:
            if isinstance(rows, pyarrow.Table):
                with storage.open_output_stream(f"{folder}/part-0.zstd.parquet") as file:
                    pyarrow.parquet.write_table(rows, file, compression="zstd", store_schema=False)  # as Spark does
            else:
                rows.write.option("parquet.block.size", _GROUP).parquet(self._files.path(folder))
            self._files.sync(folder)
        except BaseException:  # without space on the disk each attempt would leave another one
            self._files.delete(folder)
            raise
        added = []
        for name, (size, changed) in self._files.glob(f"{folder}/*.parquet").items():
            path = f"{folder}/{name}"
            with storage.open_input_file(path) as file:
                stats = statistics.statistics(file)
            if stats["numRecords"]:
                added.append(AddAction(path, size, {}, int(1000 * changed), data_change, json.dumps(stats)))
        return added

    def commit(self, table, added, removed, *transactions, landed=None, data_change=True):
        """Of two transactions of one name at once, delta-rs refuses the second: so no file is replaced twice. landed:
        names of landing files, which the commit keeps."""
        from deltalake import CommitProperties
        from deltalake.transaction import RemoveAction, Transaction

        now = int(1000 * time.time())
        gone = [RemoveAction(file["path"], data_change, now, file["size_bytes"], {}) for file in removed]
        properties = CommitProperties(
            custom_metadata=None if landed is None else {LANDED: json.dumps(landed)},
            app_transactions=[Transaction(*one) for one in transactions],
            max_commit_retries=_RETRIES,
        )
        with self._settling(table) as hooks:
            table.create_write_transaction(
                [*added, *gone],
                "append",
                table.schema(),
                commit_properties=properties,
                post_commithook_properties=hooks,
            )

    def restore(self, version, transactions):
        """Makes the table what it was at `version`, with the numbers {name: number} of its transactions then."""
        from deltalake import CommitProperties
        from deltalake.transaction import Transaction

        table = self.open()
        properties = CommitProperties(app_transactions=[Transaction(*one) for one in transactions.items()])
        with self._settling(table) as hooks:
            table.restore(version, commit_properties=properties, post_commithook_properties=hooks)

    @contextlib.contextmanager
    def _settling(self, table):
        """A context in which `table`, as it is now, gets a commit, which is durable behind it. The commit must have the
        hooks that it yields: delta-rs would write a checkpoint of the log, and delete what that replaces, with nothing
        durable."""
        from deltalake import PostCommitHookProperties

        before = table.version()
        yield PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        if not self._files.is_local:
            names, last = [], self.open().version()
        else:
            commits = (f"{LOG}/{version:020}.json" for version in itertools.count(before + 1))
            names = list(itertools.takewhile(self._files.exists, commits))
            last = before + len(names)
        self._files.sync(*names)
        if last // _CHECKPOINTS > before // _CHECKPOINTS:
            table = self.open()
            table.create_checkpoint()
            self._files.sync(f"{LOG}/{table.version():020}.checkpoint.parquet", f"{LOG}/_last_checkpoint")
            table.cleanup_metadata()


def _rows_of(added):
    """How many rows the files of AddActions have."""
    return sum(json.loads(one.stats)["numRecords"] for one in added)


def _files_of(table):
    """The files of a DeltaTable, as dicts: path, size_bytes, num_records, min.received, ... None has none."""
    import pyarrow

    return [] if table is None else pyarrow.table(table.get_add_actions(flatten=True)).to_pylist()


def _is_before(first, oldest):
    """Whether the time `first`, if it is known, is before `oldest`, by whole milliseconds: statistics have no more, and
    a file whose first row is of that millisecond would be written anew each time."""
    return first is not None and first < oldest.replace(microsecond=oldest.microsecond // 1000 * 1000)
