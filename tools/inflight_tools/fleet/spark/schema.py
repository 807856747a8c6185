"""How partial sums are added up, as Spark does it."""

from pyspark.sql import functions as F

from inflight_tools.fleet.lines.parse import OLDEST

_SUMS = ("repeated", "measurements", "dead_letters", "odd_clock")


def joined(ranges):
    """SQL that joins adjacent ranges. `ranges`: SQL of a sorted array of ranges that do not overlap."""
    lows = f"filter({ranges}, (r, i) -> i = 0 OR r.lo > get({ranges}, i - 1).hi + 1)"
    highs = f"filter({ranges}, (r, i) -> i = size({ranges}) - 1 OR get({ranges}, i + 1).lo > r.hi + 1)"
    return f"zip_with({lows}, {highs}, (l, h) -> named_struct('lo', l.lo, 'hi', h.hi))"


def part(seq):
    """SQL of the part of a journal's numbers that `seq` is in. The ledger has a row for each: however many gaps a
    device makes, a row fits into memory."""
    return f"shiftright({seq}, 20)"


def merged(sketches):
    """SQL that merges sketches, NULL if there are none."""
    return f"CASE WHEN count({sketches}) > 0 THEN kll_merge_agg_double({sketches}) END"


def fold_ledger(parts):
    """Adds up the ledger: one row for each device, epoch and part. No number is `first` in two batches, so ranges do
    not overlap."""
    added = parts.groupBy("device", "epoch", "part").agg(
        F.expr("sort_array(flatten(collect_list(ranges)))").alias("parts"),
        *(F.sum(name).alias(name) for name in _SUMS),
        F.min("first_received").alias("first_received"),
        F.max("last_received").alias("last_received"),
        F.min("live").alias("live"),
        F.expr(merged("latency")).alias("latency"),
    )
    return added.withColumn("ranges", F.expr(joined("parts"))).drop("parts")


def fold_minutes(parts):
    """Adds up minutes."""
    return parts.groupBy("device", "name", "unit", "minute", "epoch", "seq", "up").agg(
        F.sum("count").alias("count"),
        F.sum("total").alias("total"),
        F.min("min").alias("min"),
        F.max("max").alias("max"),
        F.expr("kll_merge_agg_double(sketch)").alias("sketch"),
    )


def _dated(rows, clocks):
    """The rows with a new column `dated`: the time of a row with `up`, by `clocks` (columns CLOCKS); NULL without one.
    A row stays one row, because all clocks of a journal are in one row."""
    told = "struct(boot, seq AS until, up AS told_up, time AS told)"
    told = clocks.groupBy("device", "epoch").agg(F.expr(f"collect_list({told})").alias("clocks"))
    made = "unix_micros({0}told) - CAST(1e6 * ({0}told_up - up) AS BIGINT)"
    fits = f"c.boot <= seq AND seq < c.until AND up <= c.told_up AND {made.format('c.')} >= {OLDEST}"
    rows = rows.join(told, ["device", "epoch"], "left")
    rows = rows.withColumn("clocks", F.expr(f"array_max(filter(clocks, c -> {fits}))"))
    return rows.withColumn("dated", F.expr(f"timestamp_micros({made.format('clocks.')})")).drop("clocks")


def _changed(rows, clocks, changes):
    """`rows` with the columns `changes`, SQL, of those that _dated() dates."""
    found = _dated(rows.where("up IS NOT NULL"), clocks)
    for name, sql in (changes | {"up": "NULL"}).items():
        found = found.withColumn(name, F.expr(f"CASE WHEN dated IS NULL THEN {name} ELSE {sql} END"))
    return rows.where("up IS NULL").unionByName(found.drop("dated"))


def date_measurements(rows, clocks):
    """Measurements with the time that `clocks` tells."""
    return _changed(rows, clocks, {"time": "dated", "clock": "'uptime'"})


def date_minutes(rows, clocks):
    """Minutes with the time that `clocks` tells."""
    return _changed(rows, clocks, {"minute": "date_trunc('minute', dated)", "epoch": "NULL", "seq": "NULL"})
