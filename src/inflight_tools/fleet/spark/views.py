"""Aggregates of measurements, and the delivery and health of each device, computed from the tables."""

from pyspark.sql import Window
from pyspark.sql import functions as F

from .schema import fold_sums, merged

SIZES = ("minute", "hour", "day")
PERCENTILES = (0.5, 0.95, 0.99)
_OVERLAP_S = 60  # if messages of two journals alternate for longer, there are two devices


def percentiles(sketch):
    """SQL for an array of PERCENTILES; NULL without a sketch."""
    wanted = ", ".join(f"{p}d" for p in PERCENTILES)
    return f"CASE WHEN {sketch} IS NOT NULL THEN kll_sketch_get_quantile_double({sketch}, array({wanted})) END"


def aggregates(tables, size):
    """One row for each device, name, unit and `size` ("minute", "hour", "day") of measurement. The error of percentiles
    is at most 1.7 % of the rank."""
    sums = fold_sums(tables.minutes.read(), "device", "name", "unit", F.date_trunc(size, "minute").alias("time"))
    found = sums.withColumn("mean", F.expr("total / count")).withColumn("p", F.expr(percentiles("sketch")))
    found = found.withColumn("p50", F.expr("p[0]")).withColumn("p95", F.expr("p[1]")).withColumn("p99", F.expr("p[2]"))
    return found.select("device", "name", "unit", "time", "count", "min", "max", "mean", "p50", "p95", "p99")


def numbers(tables, until):
    """The delivery of the numbers of each journal: one row for each device and epoch.

    lost: missing, and below every number that arrived after `until` (s since 1970). late: other missing numbers.
    before: numbers below the first one that arrived; the collector may not have been subscribed then.
    """
    keyed = tables.raw.read().where("first AND seq IS NOT NULL")
    recent = keyed.where(F.col("received") > F.timestamp_seconds(F.lit(until))).groupBy("device", "epoch")
    rows = tables.ledger.read().where("size(ranges) > 0")
    rows = rows.join(recent.agg(F.min("seq").alias("first_recent")), ["device", "epoch"], "left")
    sums = {
        "before": "min(ranges[0].lo)",
        "last": "max(element_at(ranges, -1).hi)",
        "delivered": "sum(aggregate(ranges, 0L, (n, r) -> n + r.hi - r.lo + 1))",
        "settled": "first(first_recent)",  # missing numbers below it are lost
        "old": "sum(aggregate(ranges, 0L, (n, r) -> n + greatest(0L, least(r.hi + 1, "
        "coalesce(first_recent, r.hi + 1)) - r.lo)))",
        **{name: f"sum({name})" for name in ("repeated", "measurements", "odd_clock")},
        "first_received": "min(first_received)",
        "last_received": "max(last_received)",
        "latency": merged("latency"),
    }
    found = rows.groupBy("device", "epoch").agg(*(F.expr(sql).alias(name) for name, sql in sums.items()))
    found = found.withColumn("accepted", F.expr("last + 1 - before"))
    found = found.withColumn("lost", F.expr("greatest(0L, coalesce(settled, last + 1) - before - old)"))
    return found.withColumn("late", F.expr("accepted - delivered - lost")).drop("last", "settled", "old")


def shared(numbers):
    """Devices for which messages of two journals alternate: two boards with one id."""
    other = numbers.selectExpr("device", "epoch AS other", "first_received AS began")
    both = numbers.join(other, "device").where("epoch <> other AND began >= first_received")
    return both.where(f"last_received > began + INTERVAL {_OVERLAP_S} SECONDS").select("device").distinct()


def conflicts(tables):
    """How many numbers arrived with different contents, by device."""
    raw = tables.raw.read().where("seq IS NOT NULL")
    keys = ["device", "epoch", "seq"]
    again = raw.where("NOT first").select(*keys).distinct()
    several = raw.join(again, keys, "left_semi").groupBy(*keys).agg(F.countDistinct("digest").alias("contents"))
    return several.where("contents > 1").groupBy("device").agg(F.count("*").alias("conflicts"))


def clock_jumps(tables):
    """How often the clock went back by more than a minute between two messages, by device."""
    order = Window.partitionBy("device", "epoch").orderBy("seq")
    messages = tables.raw.read().where("first AND made IS NOT NULL").withColumn("then", F.lag("made").over(order))
    return messages.where("made < then - INTERVAL 60 SECONDS").groupBy("device").agg(F.count("*").alias("jumps"))


def health_messages(tables):
    """Health messages with `start`, which is True for the first one after a start or a wake. Without a restart the
    count of accepted messages rises, since each health message is one. Messages without that count are left out."""
    began = Window.partitionBy("device", "epoch")
    order = Window.partitionBy("device").orderBy("epoch_began", "seq")
    health = tables.health.read().withColumn("accepted", F.expr("counters['accepted']")).where("accepted IS NOT NULL")
    health = health.withColumn("epoch_began", F.min("received").over(began))
    for name, sql in (("was", "accepted"), ("up_before", "up"), ("epoch_before", "epoch")):
        health = health.withColumn(name, F.lag(F.expr(sql)).over(order))
    begins = "was IS NULL OR accepted <= was OR coalesce(up < up_before, false) OR epoch <> epoch_before"
    return health.withColumn("start", F.expr(begins))


def health(tables):
    """The last health message of each device, and the sums of its counters over all restarts. A wake from deep sleep is
    not a restart."""
    messages = health_messages(tables)
    order = Window.partitionBy("device").orderBy("epoch_began", "seq")
    ended = messages.withColumn("ends", F.coalesce(F.lead("start").over(order), F.lit(True)))
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
    """(device, state): the last state that the device, or the broker with its will, has published."""
    messages = tables.raw.read().where("kind = 'status' AND first AND state IS NOT NULL AND NOT retain")
    return messages.groupBy("device").agg(F.expr("max_by(state, received)").alias("state"))


COUNTS = ("accepted", "delivered", "lost", "late", "before", "repeated", "measurements", "odd_clock")
MORE_COUNTS = ("epochs", "dead_letters", "conflicts", "jumps", "restarts", "resends", "outages", "full")


def devices(tables, until):
    """One row for each device: delivery, health, latency of its telemetry in ms. `until`: as in numbers()."""
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
    two_boards = shared(journals).withColumn("shared", F.lit(True))
    for more in (health(tables), states(tables), conflicts(tables), clock_jumps(tables), two_boards):
        found = found.join(more, "device", "left")
    found = found.withColumn("latency_ms", F.expr(percentiles("latency")))
    return found.fillna(0, [*COUNTS, *MORE_COUNTS]).fillna({"shared": False, "state": "unknown"})
