"""What the tables add up to: aggregates of measurements, and how each device is doing."""

from pyspark.sql import Window
from pyspark.sql import functions as F

from .schema import count, fold_sums, merged

SIZES = ("minute", "hour", "day")
PERCENTILES = (0.5, 0.95, 0.99)
_OVERLAP_S = 60  # two journals that speak in turn for longer than this are two devices


def percentiles(sketch):
    """SQL for an array of PERCENTILES, NULL where there is no sketch."""
    wanted = ", ".join(f"{p}d" for p in PERCENTILES)
    return f"CASE WHEN {sketch} IS NOT NULL THEN kll_sketch_get_quantile_double({sketch}, array({wanted})) END"


def aggregates(tables, size):
    """One row for each device, name, unit and `size` ("minute", "hour", "day"), by the time of measurement.
    Percentiles are within 1.7 % of their rank."""
    sums = fold_sums(tables.minutes.read(), "device", "name", "unit", F.date_trunc(size, "minute").alias("time"))
    found = sums.withColumn("mean", F.expr("total / count")).withColumn("p", F.expr(percentiles("sketch")))
    found = found.withColumn("p50", F.expr("p[0]")).withColumn("p95", F.expr("p[1]")).withColumn("p99", F.expr("p[2]"))
    return found.select("device", "name", "unit", "time", "count", "min", "max", "mean", "p50", "p95", "p99")


def numbers(tables, until):
    """What became of the numbers that each journal gave out, a row for each device and epoch. A number that has not
    come is lost if a later one came until `until`, s since 1970; else it is late. `before` are those below the first
    one that came: nobody knows who listened then."""
    keyed = tables.raw.read().where("first AND seq IS NOT NULL")
    recent = keyed.where(F.col("received") > F.timestamp_seconds(F.lit(until))).groupBy("device", "epoch")
    rows = tables.ledger.read().join(recent.agg(F.min("seq").alias("young")), ["device", "epoch"], "left")
    first, last = "ranges[0].lo", "element_at(ranges, -1).hi"
    come = f"({count('ranges')} - given_up)"
    # Those below the youngest number that may still be overtaken.
    settled = f"coalesce(young, {last} + 1)"
    old = f"aggregate(ranges, -given_up, (n, r) -> n + greatest(0L, least(r.hi + 1, {settled}) - r.lo))"
    lost = f"greatest(0L, {settled} - {first} - {old})"
    return rows.where("size(ranges) > 0").selectExpr(
        *("device", "epoch", "repeated", "measurements", "odd_clock", "first_received", "last_received", "latency"),
        *("given_up", f"{first} AS before", f"{last} + 1 - {first} AS accepted", f"{come} AS delivered"),
        *(f"{lost} AS lost", f"{last} + 1 - {first} - {come} - {lost} AS late"),
    )


def shared(numbers):
    """Devices for which two journals spoke at the same time: two boards with one identity."""
    other = numbers.selectExpr("device", "epoch AS other", "first_received AS began")
    both = numbers.join(other, "device").where("epoch <> other AND began >= first_received")
    return both.where(f"last_received > began + INTERVAL {_OVERLAP_S} SECONDS").select("device").distinct()


def conflicts(tables):
    """Numbers under which different things came, by device: their number."""
    raw = tables.raw.read().where("seq IS NOT NULL")
    keys = ["device", "epoch", "seq"]
    again = raw.where("NOT first").select(*keys).distinct()
    several = raw.join(again, keys, "left_semi").groupBy(*keys).agg(F.countDistinct("digest").alias("contents"))
    return several.where("contents > 1").groupBy("device").agg(F.count("*").alias("conflicts"))


def clock_jumps(tables):
    """How often a device's clock went back by more than a minute between two messages, by device."""
    order = Window.partitionBy("device", "epoch").orderBy("seq")
    told = tables.raw.read().where("first AND made IS NOT NULL").withColumn("then", F.lag("made").over(order))
    return told.where("made < then - INTERVAL 60 SECONDS").groupBy("device").agg(F.count("*").alias("jumps"))


def lives(tables):
    """Health messages with `start`: True for the first of a life, which begins with a start or a wake. Within a life
    the count of accepted messages rises, since each health message is one."""
    began = Window.partitionBy("device", "epoch")
    order = Window.partitionBy("device").orderBy("epoch_began", "seq")
    health = tables.health.read().withColumn("epoch_began", F.min("received").over(began))
    accepted = "coalesce(counters['accepted'], 0)"
    for name, sql in (("was", accepted), ("up_then", "up"), ("epoch_then", "epoch")):
        health = health.withColumn(name, F.lag(F.expr(sql)).over(order))
    begins = f"was IS NULL OR {accepted} <= was OR up < up_then OR epoch <> epoch_then"
    return health.withColumn("start", F.expr(begins))


def healths(tables):
    """How each device is doing: the last health message, and what was counted over all its lives. A wake from deep
    sleep is no restart."""
    told = lives(tables)
    order = Window.partitionBy("device").orderBy("epoch_began", "seq")
    ended = told.withColumn("ends", F.coalesce(F.lead("start").over(order), F.lit(True)))
    counted = {
        "restarts": "count_if(start AND was IS NOT NULL AND NOT reset <=> 'deep-sleep')",
        "resends": "sum(CASE WHEN ends THEN counters['resent'] END)",
        "connects": "sum(CASE WHEN ends THEN counters['connects'] END)",
        "outages": "sum(CASE WHEN ends THEN counters['outages'] END)",
        "full": "sum(CASE WHEN ends AND NOT reset <=> 'deep-sleep' THEN outbox_full END)",
        "resets": "collect_list(CASE WHEN start THEN reset END)",
        "last": "max_by(struct(heap, rssi, firmware, errors, outbox_full, journal_live, journal_used, journal_limit, "
        "journal_erases, journal_damaged, journal_where), struct(epoch_began, seq))",
    }
    return ended.groupBy("device").agg(*(F.expr(sql).alias(name) for name, sql in counted.items()))


def states(tables):
    """The last state of each device that it, or the broker in its name, has told: (device, state)."""
    told = tables.raw.read().where("kind = 'status' AND first AND state IS NOT NULL AND NOT retain")
    return told.groupBy("device").agg(F.expr("max_by(state, received)").alias("state"))


COUNTS = ("accepted", "delivered", "lost", "late", "before", "repeated", "measurements", "odd_clock", "given_up")
MORE_COUNTS = ("epochs", "dead_letters", "conflicts", "jumps", "restarts", "resends", "outages", "full")


def devices(tables, until):
    """One row for each device: what became of its numbers, how it is doing, the latency of its telemetry in ms.
    numbers() tells what `until` is."""
    journals = numbers(tables, until)
    counted = journals.groupBy("device").agg(
        *(F.sum(name).alias(name) for name in COUNTS),
        F.count("*").alias("epochs"),
        F.min("first_received").alias("since"),
        F.max("last_received").alias("seen"),
        F.expr(merged("latency")).alias("latency"),
    )
    dead = tables.dead_letters.read().where("device IS NOT NULL").groupBy("device")
    found = counted.join(dead.agg(F.count("*").alias("dead_letters")), "device", "full")
    speaking = shared(journals).withColumn("shared", F.lit(True))
    for more in (healths(tables), states(tables), conflicts(tables), clock_jumps(tables), speaking):
        found = found.join(more, "device", "left")
    found = found.withColumn("latency_ms", F.expr(percentiles("latency")))
    return found.fillna(0, [*COUNTS, *MORE_COUNTS]).fillna({"shared": False, "state": "unknown"})
