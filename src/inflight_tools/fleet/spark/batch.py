"""What a micro-batch does: marks what came before, and writes what is new.

Plain DataFrames, and no state but the ledger, which tells for each device and journal epoch which numbers have come, as
ranges. It grows with devices and gaps, not with messages or time, so a repetition is known for one however late it
is, and a batch that is repeated after a crash comes to the same result: it depends on its lines, and on the batches
before it."""

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from .lines import SCHEMA, reader
from .schema import FACTS, LEDGER, MINUTES, fold_ledger, fold_minutes, joined
from .tables import FANOUT, Table

_KEY = ["device", "epoch"]


class Tables:
    """All tables in the folder or URI `root`."""

    def __init__(self, spark, root):
        for name, schema in FACTS.items():
            setattr(self, name, Table(spark, root, name, schema))
        self.ledger = Table(spark, root, "ledger", LEDGER, fold_ledger)
        self.minutes = Table(spark, root, "minutes", MINUTES, fold_minutes)

    def merge(self):
        """Merges small folders, but for the ledger's, of which take() sees to it. Returns how many."""
        return sum(getattr(self, name).merge() for name in (*FACTS, "minutes"))


def take(lines, batch, root, topics):
    """Writes batch number `batch` into the tables in `root`: DataFrame `lines` has one column, bytes, the lines of
    landing files; devices publish below `topics`."""
    tables = Tables(lines.sparkSession, root)
    parsed = lines.mapInArrow(reader(topics), from_arrow_schema(SCHEMA))
    marked = _marked(parsed, tables.ledger.read(before=batch)).persist()
    try:
        _write(tables, marked, batch)
    finally:
        marked.unpersist()
    if batch % FANOUT == 0:
        tables.ledger.merge(everything=True)  # or there is ever more to read for each batch


def _write(tables, marked, batch):
    fresh = marked.where("first")
    measurements = _measurements(fresh)
    dead = fresh.where("problem IS NOT NULL").withColumnRenamed("problem", "reason")
    health = fresh.where("kind = 'health'").select("*", "health.*")
    counts = {
        "raw": "count(*)",
        "keyed": "count(seq)",
        "measurements": "coalesce(sum(CASE WHEN first THEN size(records) END), 0)",
        "health": "count_if(first AND kind = 'health')",
        "dead_letters": "count_if(first AND problem IS NOT NULL)",
    }
    many = marked.agg(*(F.expr(sql).alias(name) for name, sql in counts.items())).first()
    tables.raw.write(_select(marked, "raw"), batch, many["raw"])
    tables.measurements.write(_select(measurements, "measurements"), batch, many["measurements"])
    tables.minutes.write(_minutes(measurements), batch, many["measurements"])
    tables.health.write(_select(health, "health"), batch, many["health"])
    tables.dead_letters.write(_select(dead, "dead_letters"), batch, many["dead_letters"])
    tables.ledger.write(_arrivals(marked), batch, many["keyed"])


def _select(rows, table):
    return rows.select(*StructType.fromDDL(FACTS[table]).names)


def _marked(parsed, ledger):
    """`parsed` with `first`, `made` and `digest`: the first delivery of each number is True, that of what has no
    number, too. Those without are spread over many places, or hostile ones would all be one task's."""
    place = F.expr("coalesce(epoch, -1 - pmod(digest, 256))")
    number = F.expr("coalesce(seq, -1 - monotonically_increasing_id())")
    order = Window.partitionBy("device", "place", "number").orderBy("received", "by", "dup", "digest")
    known = ledger.select("device", F.col("epoch").alias("place"), "ranges")
    rows = parsed.withColumn("digest", F.xxhash64("payload"))
    rows = rows.withColumn("made", F.expr("CASE WHEN get(records, 0).clock = 'device' THEN get(records, 0).time END"))
    rows = rows.withColumn("place", place).withColumn("number", number).join(known, ["device", "place"], "left")
    seen = F.expr("coalesce(exists(ranges, r -> seq BETWEEN r.lo AND r.hi), false)")
    return rows.withColumn("first", ~seen & (F.row_number().over(order) == 1)).drop("place", "number", "ranges")


def _measurements(fresh):
    exploded = fresh.select("device", "epoch", "seq", "received", F.posexplode("records").alias("place", "record"))
    return exploded.select("*", "record.*").drop("record")


def _minutes(measurements):
    numbers = measurements.where("value IS NOT NULL").withColumn("minute", F.expr("date_trunc('minute', time)"))
    return numbers.groupBy("device", "name", "unit", "minute").agg(
        F.count("value").alias("count"),
        F.sum("value").alias("total"),
        F.min("value").alias("min"),
        F.max("value").alias("max"),
        F.expr("kll_sketch_agg_double(value)").alias("sketch"),
    )


def _arrivals(marked):
    """What the batch adds to the ledger."""
    latency = (
        "CASE WHEN first AND made IS NOT NULL THEN greatest(0, unix_micros(received) - unix_micros(made)) / 1000d END"
    )
    added = (
        marked.where("seq IS NOT NULL")
        .groupBy(*_KEY)
        .agg(
            F.expr("sort_array(collect_list(CASE WHEN first THEN named_struct('lo', seq, 'hi', seq) END))").alias(
                "seqs"
            ),
            F.expr("count_if(NOT first)").alias("repeated"),
            F.expr("min(CASE WHEN first THEN received END)").alias("first_received"),
            F.expr("max(CASE WHEN first THEN received END)").alias("last_received"),
            F.expr("coalesce(sum(CASE WHEN first THEN size(records) END), 0)").alias("measurements"),
            F.expr("count_if(first AND problem IS NOT NULL)").alias("dead_letters"),
            F.expr("count_if(first AND exists(records, r -> r.clock IN ('ahead', 'behind')))").alias("odd_clock"),
            # A sketch of nothing could not be merged.
            F.expr(f"CASE WHEN count({latency}) > 0 THEN kll_sketch_agg_double({latency}) END").alias("latency"),
        )
    )
    return added.withColumn("ranges", F.expr(joined("seqs"))).withColumn("given_up", F.expr("0L")).drop("seqs")
