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


def collectors(tables, until):
    """One row for each collector: `seen`, when its last message arrived; `marked`, when it sent the last marker that
    came back to it; `drained`: all that the broker had for it at that time is in the tables. That is the time of its
    last marker: the broker keeps the order, so all that was in front of the marker has landed before it. For a
    collector whose markers never came back it is a guess, `until` (s since 1970)."""
    raw = tables.raw.read().where("`by` IS NOT NULL AND received IS NOT NULL")
    marked = F.max(F.expr("CASE WHEN kind = 'collector' THEN made END")).alias("marked")
    found = raw.groupBy("by").agg(F.max("received").alias("seen"), marked)
    return found.withColumn("drained", F.coalesce("marked", F.timestamp_seconds(F.lit(until))))


def missing(tables, until):
    """The numbers that have not arrived, as ranges from `lo` to `hi`, with the place where they are:

    device  the device has told that the broker had not acknowledged them (`oldest` in status and health)
    way     the broker has acknowledged them, and a collector's session may still hold them
    gone    the broker has acknowledged them, and no session holds them: lost behind the broker, or given up by the
            device, whose counters tell how many it gave up

    `proved` is false if that is a guess: a collector's markers never came back, or the device never tells `oldest`. Of
    such a device a number is `gone` if a later one arrived before `until` (s since 1970), else on its way."""
    drained = collectors(tables, until)
    drained = drained.agg(F.min("drained").alias("drained"), F.expr("count(*) = count(marked)").alias("marked"))
    told = tables.raw.read().where("first AND seq IS NOT NULL").crossJoin(F.broadcast(drained))
    told = told.groupBy("device", "epoch").agg(
        F.max("oldest").alias("oldest"),
        F.expr("max(CASE WHEN received <= drained THEN oldest END)").alias("passed"),
        F.expr("first(marked) AND max(oldest) IS NOT NULL").alias("proved"),
        F.expr(f"min(CASE WHEN received > timestamp_seconds({until!r}D) THEN seq END)").alias("recent"),
    )
    ranges = tables.ledger.read().select("device", "epoch", F.explode("ranges").alias("r"))
    ranges = ranges.select("device", "epoch", "r.lo", "r.hi")
    order = Window.partitionBy("device", "epoch").orderBy("lo")
    gaps = ranges.withColumn("from", F.lag("hi").over(order) + 1).where("from < lo")
    gaps = gaps.selectExpr("device", "epoch", "from AS lo", "lo - 1 AS hi").join(told, ["device", "epoch"], "left")
    gone = "CASE WHEN oldest IS NOT NULL THEN coalesce(passed, 0L) ELSE coalesce(recent, hi + 1) END"
    gaps = gaps.withColumn("gone", F.expr(gone)).withColumn("kept", F.expr("coalesce(oldest, hi + 1)"))
    parts = (
        "named_struct('lo', lo, 'hi', least(hi, gone - 1), 'place', 'gone')",
        "named_struct('lo', greatest(lo, gone), 'hi', least(hi, kept - 1), 'place', 'way')",
        "named_struct('lo', greatest(lo, kept), 'hi', hi, 'place', 'device')",
    )
    split = gaps.select("device", "epoch", "proved", F.explode(F.expr(f"array({', '.join(parts)})")))
    return split.select("device", "epoch", "col.lo", "col.hi", "col.place", "proved").where("lo <= hi")


def numbers(tables, until):
    """The delivery of the numbers of each journal: one row for each device and epoch.

    accepted = delivered + on_device + on_way + gone, where the last three are the places of missing(). guessed: how
    many of `gone` are so by their age alone. before: numbers below the first one that arrived; the collector may not
    have been subscribed then.
    """
    sums = {
        "before": "min(get(ranges, 0).lo)",
        "last": "max(element_at(ranges, -1).hi)",
        "delivered": "sum(aggregate(ranges, 0L, (n, r) -> n + r.hi - r.lo + 1))",
        **{name: f"sum({name})" for name in ("repeated", "measurements", "odd_clock")},
        "first_received": "min(first_received)",
        "last_received": "max(last_received)",
        "latency": merged("latency"),
    }
    rows = tables.ledger.read().where("size(ranges) > 0").groupBy("device", "epoch")
    found = rows.agg(*(F.expr(sql).alias(name) for name, sql in sums.items()))
    size = "CASE WHEN {} THEN hi - lo + 1 ELSE 0 END"
    places = {"on_device": "place = 'device'", "on_way": "place = 'way'", "gone": "place = 'gone'"}
    places["guessed"] = "place = 'gone' AND NOT proved"
    away = missing(tables, until).groupBy("device", "epoch")
    away = away.agg(*(F.expr(f"sum({size.format(sql)})").alias(name) for name, sql in places.items()))
    found = found.join(away, ["device", "epoch"], "left").fillna(0, list(places))
    return found.withColumn("accepted", F.expr("last + 1 - before")).drop("last")


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
    messages = tables.raw.read().where("first AND seq IS NOT NULL AND made IS NOT NULL")
    messages = messages.withColumn("then", F.lag("made").over(order))
    return messages.where("made < then - INTERVAL 60 SECONDS").groupBy("device").agg(F.count("*").alias("jumps"))


def health_messages(tables):
    """Health messages with `start`, which is True for the first one after a start or a wake. Without a restart the
    count of accepted messages rises, since each health message is one. A message without that count says nothing."""
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
        # What the device gave up, by reason. Damage is what the mount of the start has found.
        "dropped": "sum(CASE WHEN ends THEN counters['dropped'] END)",
        "damaged": "sum(CASE WHEN ends THEN journal_damaged END)",
        "skipped": "sum(CASE WHEN ends THEN journal_skipped END)",
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


COUNTS = ("accepted", "delivered", "on_device", "on_way", "gone", "guessed", "before", "repeated", "measurements")
MORE_COUNTS = (
    *("odd_clock", "epochs", "dead_letters", "conflicts", "jumps", "restarts", "resends", "outages", "full"),
    *("dropped", "damaged", "skipped"),
)
LOSSES = ("lost", "given_up")


def devices(tables, until):
    """One row for each device: delivery, health, latency of its telemetry in ms. `until`: as in missing().

    accepted = delivered + on_device + on_way + lost + given_up. given_up: of the numbers that are gone, as many as the
    device counts as given up (dropped, damaged, skipped). lost: the others."""
    journals = numbers(tables, until)
    counted = journals.groupBy("device").agg(
        *(F.sum(name).alias(name) for name in (*COUNTS, "odd_clock")),
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
    found = found.fillna(0, [*COUNTS, *MORE_COUNTS]).fillna({"shared": False, "state": "unknown"})
    found = found.withColumn("given_up", F.expr("least(gone, dropped + damaged + skipped)"))
    return found.withColumn("lost", F.expr("gone - given_up"))
