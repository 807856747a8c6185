"""One micro-batch: marks repetitions, and writes the tables.

The only state is the ledger: the numbers that have arrived, as ranges for each device and journal epoch.
- It grows with devices and gaps, not with messages or time (a row for each million numbers of a journal). So a
  repetition is detected however late it is.
- A batch depends only on its lines and on the batches before it. So a batch that is repeated after a crash has the same
  result.
"""

import contextlib

from pyspark.sql import DataFrame, Observation, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from inflight_tools.fleet.columns import CLOCKS, FACTS, LEDGER, MINUTES
from inflight_tools.fleet.delta import (
    REPAIR,
    TOLD,
    WrongTables,
    counted,
    differences,
    lacking,
    last_batch,
    opened_together,
)
from inflight_tools.fleet.lines.reader import reader
from inflight_tools.fleet.lines.rows import SCHEMA

from .schema import date_measurements, date_minutes, fold_ledger, fold_minutes, joined, part
from .storage import Storage
from .tables import KEPT_H, Table

_MERGED = 16  # so many batches of the ledger are merged
# Bytes of landing files, and of the ledger, up to which one task computes a batch, and this process writes its files.
# For few rows Spark would plan, exchange and commit for ten times as long as it computes.
_FEW, _FEW_KNOWN = 1 << 20, 16 << 20
# To make Java of a query, and to compile it, takes longer than few rows do.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_COUNTS = {
    "raw": "count(*)",
    "measurements": "coalesce(sum(CASE WHEN first THEN size(records) END), 0)",
    "health": "count_if(first AND health IS NOT NULL)",
    "dead_letters": "count_if(first AND problem IS NOT NULL)",
    "clocks": "count_if(first AND boot IS NOT NULL)",
    "undated": "count_if(first AND boot IS NULL AND up IS NOT NULL)",
}


class Tables:
    """All tables in the folder or URI `root`."""

    raw: Table  # this one and the next three: FACTS
    measurements: Table
    health: Table
    dead_letters: Table

    def __init__(self, spark, root):
        self._files = Storage(spark, root)
        for name, schema in FACTS.items():
            setattr(self, name, Table(spark, root, name, schema))
        self.ledger = Table(spark, root, "ledger", LEDGER, fold_ledger)
        self.minutes = Table(spark, root, "minutes", MINUTES, fold_minutes)
        self.clocks = Table(spark, root, "clocks", CLOCKS)

    def all(self):
        """All tables. `raw` is the last one."""
        return [getattr(self, name) for name in ("ledger", "minutes", "clocks", *reversed(FACTS))]

    def told(self, ledger, written, batch):
        """The transactions of the ledger that tell how many rows the batches up to this one have written into each
        table. ledger: the DeltaTable before this one. written: {name: rows of this one}."""
        for name, rows in written.items():
            known = counted(ledger, TOLD.format(name))
            yield TOLD.format(name), getattr(self, name).rows_written(batch) if known is None else known + rows

    def accept(self):
        """From now on the ledger tells the rows that are there."""
        last = self.ledger.last_batch()
        self.ledger.tell(*((TOLD.format(table.name), table.rows_written(last)) for table in self.all()[1:]))

    def create(self):
        """Makes tables that are missing, and adds columns that they lack."""
        for table in self.all():
            table.create()

    def last_batch(self):
        """The highest number of a batch in any table, -1 if there is none."""
        return max(table.last_batch() for table in self.all())

    def drop_unfinished(self):
        """Removes the last batch if it is incomplete: the ledger, which is written last, does not have it. If this is
        killed, it can be repeated."""
        last = self.last_batch()
        if last > self.ledger.last_batch():
            for table in self.all():
                table.remove(last)

    def merge(self, oldest=None, oldest_measurements=None, oldest_minutes=None):
        """Merges small files, except the ledger's, which take() merges. Returns how many files were replaced.

        oldest...: datetimes. Deletes the deliveries in `raw`, and the measurements, that were received before; and the
        rows of `minutes` that are of a minute before. `minutes` has all measurements of complete batches: so of those
        that are deleted count, total, least and greatest stay, however often this is killed and repeated. Raises
        WrongTables, with nothing deleted, if rows of a table are missing."""
        names = [table.name for table in self.all()]
        if oldest_measurements and (lack := differences(opened_together(self._files, names))):
            raise WrongTables(f"{lacking(lack)}: {REPAIR}")
        last = self.ledger.last_batch()
        limits = {"raw": (oldest,), "measurements": (oldest_measurements,), "minutes": (oldest_minutes, "minute")}
        return sum(table.merge(last, *limits.get(table.name, ())) for table in self.all()[1:])

    def vacuum(self, hours=KEPT_H):
        """Deletes files that have been no part of a table for so many hours."""
        for table in self.all():
            table.vacuum(hours)


def take(lines, batch, root, topics, landed=None):
    """Writes batch number `batch` into the tables in `root`. The DataFrame `lines` has one column, the lines of landing
    files as bytes, and `landed` is the list of their names, None if they are unknown. Devices publish below `topics`.
    When it returns, all is durable."""
    tables = Tables(lines.sparkSession, root)
    ledger = tables.ledger.open()
    if batch <= last_batch(ledger):
        return
    few = _bytes_of(lines) <= _FEW and tables.ledger.size(ledger) <= _FEW_KNOWN
    parsed = lines.mapInArrow(reader(topics), from_arrow_schema(SCHEMA))
    marked = _marked(parsed, tables.ledger.parts(ledger), few)
    with _evaluated(marked, few) as (marked, rows, many):
        _write(tables, ledger, marked, rows, many, batch, landed)
    if batch % _MERGED == 0:
        tables.ledger.merge(batch)  # each batch reads the whole ledger


def _bytes_of(lines):
    """The bytes of the files that a DataFrame reads, as Spark estimates them. Of another source it is a huge number."""
    return lines._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()


@contextlib.contextmanager
def _interpreted(spark):
    """A context in which Spark interprets its queries."""
    before = {name: spark.conf.get(name) for name in _INTERPRETED}
    try:
        for name, value in _INTERPRETED.items():
            spark.conf.set(name, value)
        yield spark
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


@contextlib.contextmanager
def _evaluated(marked, few):
    """A context with the marked rows, which are computed once: the DataFrame for queries; the rows themselves, an Arrow
    table if they are few, else the same DataFrame; and how many rows each table gets of them."""
    counts = [F.expr(sql).alias(name) for name, sql in _COUNTS.items()]
    if few:
        with _interpreted(marked.sparkSession) as spark:
            told = Observation()
            rows = marked.select("*", "properties.*").observe(told, *counts).toArrow()
            yield spark.createDataFrame(rows).coalesce(1), rows, told.get
        return
    marked = marked.persist()
    try:
        rows = marked.select("*", "properties.*")
        yield rows, rows, rows.agg(*counts).first().asDict()
    finally:
        marked.unpersist()


def _write(tables, ledger, marked, rows, many, batch, landed):
    few = rows is not marked
    fresh = marked.where("first")
    measurements = _measurements(fresh)
    clocks = fresh.where("boot IS NOT NULL").withColumn("time", F.col("made"))
    dead = fresh.where("problem IS NOT NULL").withColumnRenamed("problem", "reason")
    health = fresh.where("health IS NOT NULL").drop("up").select("*", "health.*")
    clocks = clocks.select(*StructType.fromDDL(CLOCKS).names)
    written = dict.fromkeys((*FACTS, "minutes", "clocks"), 0)

    def write(name, rows, any_rows, undated=False):
        if few and any_rows and not undated and isinstance(rows, DataFrame):
            rows = rows.toArrow()
        written[name] = getattr(tables, name).write(rows, batch, any_rows, undated, landed)

    if many["clocks"]:
        # Before anything of this batch is written: if it is repeated, this has nothing more to do.
        tables.measurements.date(clocks, date_measurements)
        tables.minutes.date(clocks, date_minutes)
        write("clocks", clocks, True)
    undated = many["undated"] > 0
    if undated:  # the messages of several collectors are in no order
        measurements = date_measurements(measurements, tables.clocks.read().unionByName(clocks).distinct())
    write("raw", _select(rows, "raw"), many["raw"])
    write("measurements", _select(measurements, "measurements"), many["measurements"], undated)
    write("minutes", _minutes(measurements), many["measurements"], undated)
    write("health", _select(health, "health"), many["health"])
    write("dead_letters", _select(dead, "dead_letters"), many["dead_letters"])
    arrivals = _arrivals(marked).toArrow() if few else _arrivals(marked)
    tables.ledger.write(arrivals, batch, landed=landed, more=tables.told(ledger, written, batch), before=ledger)


def _select(rows, table):
    return rows.select(StructType.fromDDL(FACTS[table]).names)


def _marked(parsed, ledger, few):
    """Adds `first`, `digest` and `part`. `first` is True for the first delivery of a number, and for each message
    without a number.

    The ranges of the ledger are sorted among the messages by their lowest number. So a message is a repetition if the
    highest number of the ranges before it is not below its own, or if the message before it has its number."""
    # Messages without a number are spread over 256 keys: one task could not sort all of a hostile sender's.
    journal = F.expr("coalesce(epoch, -1 - pmod(digest, 256))")
    number = F.expr("coalesce(seq, -1 - monotonically_increasing_id())")
    rows = parsed.withColumn("digest", F.xxhash64("payload")).withColumn("part", F.expr(part("seq")))
    rows = rows.withColumn("journal", journal).withColumn("number", number)
    known = ledger.select("device", F.col("epoch").alias("journal"), "part", F.explode("ranges").alias("range"))
    known = known.selectExpr("device", "journal", "part", "range.lo AS number", "range.hi AS until")
    both = rows.withColumn("until", F.lit(None).cast("bigint")).unionByName(known, allowMissingColumns=True)
    both = both.coalesce(1) if few else both
    order = Window.partitionBy("device", "journal", "part").orderBy(
        *("number", F.desc_nulls_last("until"), "received", "by", "dup", "digest"),
        *("topic", "qos", "retain", "properties"),  # so that a batch that is repeated has the same result
    )
    before = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    seen = (F.max("until").over(before) >= F.col("number")) | (F.lag("number").over(order) == F.col("number"))
    marked = both.withColumn("first", ~F.coalesce(seen, F.lit(False)))
    return marked.where("until IS NULL").drop("journal", "number", "until")


def _measurements(fresh):
    records = F.posexplode("records").alias("place", "record")
    rows = fresh.select("device", "epoch", "seq", "received", "up", records).select("*", "record.*").drop("record")
    up = "up + (unix_micros(time) - unix_micros(received)) / 1e6"  # a record may be older than its message
    return rows.withColumn("up", F.expr(f"CASE WHEN clock = 'receipt' THEN greatest(0, {up}) END"))


def _minutes(measurements):
    numbers = measurements.where("value IS NOT NULL").withColumn("minute", F.expr("date_trunc('minute', time)"))
    of_message = (F.expr(f"CASE WHEN up IS NOT NULL THEN {name} END").alias(name) for name in ("epoch", "seq"))
    return numbers.groupBy("device", "name", "unit", "minute", *of_message, "up").agg(
        F.count("value").alias("count"),
        F.sum("value").alias("total"),
        F.min("value").alias("min"),
        F.max("value").alias("max"),
        F.expr("kll_sketch_agg_double(value)").alias("sketch"),
    )


def _arrivals(marked):
    """The batch's rows of the ledger."""
    latency = (
        "CASE WHEN first AND made IS NOT NULL THEN greatest(0, unix_micros(received) - unix_micros(made)) / 1000d END"
    )
    sums = {
        "seqs": "sort_array(collect_list(CASE WHEN first THEN named_struct('lo', seq, 'hi', seq) END))",
        "repeated": "count_if(NOT first)",
        "first_received": "min(CASE WHEN first THEN received END)",
        "last_received": "max(CASE WHEN first THEN received END)",
        "measurements": "coalesce(sum(CASE WHEN first THEN size(records) END), 0)",
        "dead_letters": "count_if(first AND problem IS NOT NULL)",
        "odd_clock": "count_if(first AND exists(records, r -> r.clock IN ('ahead', 'behind')))",
        # An empty sketch could not be merged.
        "latency": f"CASE WHEN count({latency}) > 0 THEN kll_sketch_agg_double({latency}) END",
    }
    rows = marked.where("seq IS NOT NULL").groupBy("device", "epoch", "part")
    added = rows.agg(*(F.expr(sql).alias(name) for name, sql in sums.items()))
    return added.withColumn("ranges", F.expr(joined("seqs"))).drop("seqs")
