"""One micro-batch: marks repetitions, and writes the tables.

The only state is the ledger: the numbers that have arrived, as ranges for each device and journal epoch.
- It grows with devices and gaps, not with messages or time (a row for each million numbers of a journal). So a
  repetition is detected however late it is.
- A batch depends only on its lines and on the batches before it. So a batch that is repeated after a crash has the same
  result.
"""

import contextlib
import functools

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from inflight_tools.fleet.columns import CLOCKS, FACTS, LEDGER, MINUTES
from inflight_tools.fleet.delta import (
    REPAIR,
    TOLD,
    WrongTables,
    columns_of,
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
from .tables import FEW, KEPT_H, Table, interpreted

_MERGED = 16  # so many batches of the ledger are merged
_FEW_KNOWN = 16 << 20  # bytes of the ledger up to which one task computes a batch of few rows
# SQL rather than an object of Java for each column: for few rows those would cost more than the query. In braces: the
# DataFrame of that name.
_COUNTS = """struct(
    count(*) AS raw,
    coalesce(sum(CASE WHEN first THEN size(records) END), 0) AS measurements,
    count_if(first AND health IS NOT NULL) AS health,
    count_if(first AND problem IS NOT NULL) AS dead_letters,
    count_if(first AND boot IS NOT NULL) AS clocks,
    count_if(first AND boot IS NULL AND up IS NOT NULL) AS undated
) AS counts"""
# Messages without a number are spread over 256 keys: one task could not sort all of a hostile sender's.
_NUMBERED = f"""
SELECT *, coalesce(epoch, -1 - pmod(digest, 256)) AS journal,
    coalesce(seq, -1 - monotonically_increasing_id()) AS number
FROM (SELECT *, xxhash64(payload) AS digest, {part("seq")} AS part FROM {{parsed}})"""
_KNOWN = """
SELECT device, journal, part, range.lo AS number, range.hi AS until
FROM (SELECT device, epoch AS journal, part, explode(ranges) AS range FROM {ledger})"""
# The columns behind `until` are there so that a batch that is repeated has the same result.
_ORDER = """PARTITION BY device, journal, part ORDER BY
    number, until DESC NULLS LAST, received, `by`, dup, digest, topic, qos, retain, properties"""
_MARKED = f"""
SELECT * EXCEPT (journal, number, until) FROM (
    SELECT *, NOT coalesce(
        max(until) OVER ({_ORDER} ROWS UNBOUNDED PRECEDING) >= number OR lag(number) OVER ({_ORDER}) = number, false
    ) AS first
    FROM {{both}}
)
WHERE until IS NULL"""
# A record may be older than its message. greatest() leaves out NULL.
_MEASUREMENTS = """
SELECT {columns} FROM (
    SELECT device, epoch, seq, received, place, record.*, CASE WHEN record.clock = 'receipt' AND up IS NOT NULL
        THEN greatest(0, up + (unix_micros(record.time) - unix_micros(received)) / 1e6) END AS up
    FROM (
        SELECT device, epoch, seq, received, up, posexplode(records) AS (place, record) FROM {{marked}} WHERE first
    )
)"""
_MINUTES = """
SELECT device, name, unit, date_trunc('minute', time) AS minute, count(value) AS count, sum(value) AS total,
    min(value) AS min, max(value) AS max, kll_sketch_agg_double(value) AS sketch,
    CASE WHEN up IS NOT NULL THEN epoch END AS epoch, CASE WHEN up IS NOT NULL THEN seq END AS seq, up
FROM {measurements} WHERE value IS NOT NULL
GROUP BY ALL"""
_HEALTH = """
SELECT {columns}
FROM (SELECT device, epoch, seq, received, health.* FROM {{marked}} WHERE first AND health IS NOT NULL)"""
_DEAD_LETTERS = """
SELECT {columns} FROM (SELECT *, problem AS reason FROM {{marked}} WHERE first AND problem IS NOT NULL)"""
_CLOCKS = "SELECT device, epoch, seq, boot, up, made AS time FROM {marked} WHERE first AND boot IS NOT NULL"
_LATENCY = (
    "CASE WHEN first AND made IS NOT NULL THEN greatest(0, unix_micros(received) - unix_micros(made)) / 1000d END"
)
# The batch's rows of the ledger. An empty sketch could not be merged.
_ARRIVALS = f"""
SELECT device, epoch, part, {joined("seqs")} AS ranges, * EXCEPT (device, epoch, part, seqs) FROM (
    SELECT device, epoch, part,
        sort_array(collect_list(CASE WHEN first THEN named_struct('lo', seq, 'hi', seq) END)) AS seqs,
        count_if(NOT first) AS repeated,
        min(CASE WHEN first THEN received END) AS first_received,
        max(CASE WHEN first THEN received END) AS last_received,
        coalesce(sum(CASE WHEN first THEN size(records) END), 0) AS measurements,
        count_if(first AND problem IS NOT NULL) AS dead_letters,
        count_if(first AND exists(records, r -> r.clock IN ('ahead', 'behind'))) AS odd_clock,
        CASE WHEN count({_LATENCY}) > 0 THEN kll_sketch_agg_double({_LATENCY}) END AS latency,
        min(CASE WHEN NOT retain THEN seq END) AS live
    FROM {{marked}} WHERE seq IS NOT NULL
    GROUP BY device, epoch, part
)"""


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
        ledger = self.ledger.open()
        rows = ((TOLD.format(table.name), table.rows_written(last_batch(ledger))) for table in self.all()[1:])
        self.ledger.commit(ledger, [], [], *rows)

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
        if (last := self.last_batch()) > self.ledger.last_batch():
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

    def newest(self):
        """When the newest row was received, a datetime in UTC; None if no file tells."""
        return max(filter(None, (getattr(self, name).newest() for name in FACTS)), default=None)

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
    few = _bytes_of(lines) <= FEW and sum(columns_of(ledger, "size_bytes")[0]) <= _FEW_KNOWN
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
def _evaluated(marked, few):
    """A context with the marked rows, which are computed once: the DataFrame for queries; the rows themselves, an Arrow
    table if they are few, else the same DataFrame; and how many rows each table gets of them."""
    counts = F.expr(_COUNTS)
    if few:
        with interpreted(marked.sparkSession) as spark:
            told = Observation()
            rows = marked.select("*", "properties.*").observe(told, counts).toArrow()
            yield spark.createDataFrame(rows).coalesce(1), rows, told.get["counts"]
        return
    marked = marked.persist()
    try:
        rows = marked.select("*", "properties.*")
        yield rows, rows, rows.agg(counts).first()["counts"]
    finally:
        marked.unpersist()


def _write(tables, ledger, marked, rows, many, batch, landed):
    few = rows is not marked
    written = dict.fromkeys((*FACTS, "minutes", "clocks"), 0)

    def query(sql, **frames):
        return marked.sparkSession.sql(sql, **(frames or {"marked": marked}))

    def of(name, sql):
        return query(sql.format(columns=", ".join(f"`{column}`" for column in _columns(FACTS[name]))))

    def computed(rows):
        return rows.toArrow() if few and isinstance(rows, DataFrame) else rows

    def write(name, rows, undated=False):
        rows = rows if undated else computed(rows)
        written[name] = getattr(tables, name).write(rows, batch, undated, landed)

    if many["clocks"]:
        # Before anything of this batch is written: if it is repeated, this has nothing more to do.
        clocks = query(_CLOCKS)
        tables.measurements.date(clocks, date_measurements)
        tables.minutes.date(clocks, date_minutes)
        write("clocks", clocks)
    if many["raw"]:
        write("raw", rows.select(_columns(FACTS["raw"])))
    if many["measurements"]:
        measurements, undated = of("measurements", _MEASUREMENTS), many["undated"] > 0
        if undated:  # the messages of several collectors are in no order
            clocks = tables.clocks.read().unionByName(query(_CLOCKS)).distinct()
            measurements = date_measurements(measurements, clocks)
        write("measurements", measurements, undated)
        write("minutes", query(_MINUTES, measurements=measurements), undated)
    if many["health"]:
        write("health", of("health", _HEALTH))
    if many["dead_letters"]:
        write("dead_letters", of("dead_letters", _DEAD_LETTERS))
    arrivals = computed(query(_ARRIVALS))
    tables.ledger.write(arrivals, batch, landed=landed, more=tables.told(ledger, written, batch), before=ledger)


@functools.cache
def _columns(ddl):
    return StructType.fromDDL(ddl).names


def _marked(parsed, ledger, few):
    """Adds `first`, `digest` and `part`. `first` is True for the first delivery of a number, and for each message
    without a number.

    The ranges of the ledger are sorted among the messages by their lowest number. So a message is a repetition if the
    highest number of the ranges before it is not below its own, or if the message before it has its number."""
    query = parsed.sparkSession.sql
    known = query(_KNOWN, ledger=ledger)
    both = query(_NUMBERED, parsed=parsed).unionByName(known, allowMissingColumns=True)
    return query(_MARKED, both=both.coalesce(1) if few else both)
