"""Aggregates of measurements, and the delivery and health of each device, computed from the tables."""

from pyspark.sql import Window
from pyspark.sql import functions as F

from inflight_tools.fleet import proof as rules

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


_SILENT_S = 600  # shorter silence is no alarm
_DAY_S = 86_400


def collectors(tables, retired=()):
    """A row for each collector, but those in `retired`: `seen`, when its last message arrived; `marked`, when it sent
    the last marker that came back to it. All that the broker had for it at that time is in the tables."""
    raw = tables.raw.read().where("`by` IS NOT NULL").where(~F.col("by").isin(list(retired)))
    marked = F.max(F.expr("CASE WHEN kind = 'collector' THEN made END")).alias("marked")
    return raw.groupBy("by").agg(F.max("received").alias("seen"), marked).orderBy("marked", "by").collect()


def missing(tables, proof):
    """The numbers that have not arrived, as ranges from `lo` to `hi`, with the `place` where they are:

    device  the device has told that the broker had not completed them, and it still has the journal
    erased  the same, but the device has another journal now
    way     the broker has acknowledged them, and a collector's session may still have them
    gone    the broker has acknowledged them, and no session has them: lost behind the broker, or given up by the
            device, which counts these

    proved: false if that is a guess, because of their age, see Proof."""
    told = tables.raw.read().where("first AND seq IS NOT NULL").groupBy("device", "epoch")
    told = told.agg(*(F.expr(sql).alias(name) for name, sql in proof.told(_moment).items()))
    told = _stepped(told, rules.JOURNAL_STEPS)
    ranges = tables.ledger.read().select("device", "epoch", F.explode("ranges").alias("r"))
    order = Window.partitionBy("device", "epoch").orderBy("r.lo")
    gaps = ranges.withColumn("from", F.lag("r.hi").over(order) + 1).where("from < r.lo")
    gaps = gaps.selectExpr("device", "epoch", "from AS lo", "r.lo - 1 AS hi").join(told, ["device", "epoch"], "left")
    gaps = _stepped(gaps, rules.GAP_STEPS).withColumn("proved", F.lit(proof.proved) & F.col("tells"))
    parts = (f"named_struct('lo', {lo}, 'hi', {hi}, 'place', {place})" for lo, hi, place in rules.GAP_PARTS)
    split = gaps.select("device", "epoch", "proved", F.explode(F.expr(f"array({', '.join(parts)})")))
    return split.select("device", "epoch", "col.lo", "col.hi", "col.place", "proved").where("lo <= hi")


def _moment(seconds):
    return f"timestamp_seconds({seconds!r}D)"


def _stepped(rows, steps):
    """Adds the columns of `steps`, see proof.py."""
    for columns in steps:
        rows = rows.withColumns({name: F.expr(sql) for name, sql in columns.items()})
    return rows


def _journals(tables):
    """What the ledger knows of each journal: one row for each device and epoch. before: numbers below the first one
    that arrived; the collector may not have been subscribed then. accepted: from the first to the last one."""
    sums = {
        "before": "min(ranges[0].lo)",
        "accepted": "max(element_at(ranges, -1).hi) + 1 - min(ranges[0].lo)",
        "delivered": "sum(aggregate(ranges, 0L, (n, r) -> n + r.hi - r.lo + 1))",
        **{name: f"sum({name})" for name in ("repeated", "measurements", "odd_clock")},
        "first_received": "min(first_received)",
        "last_received": "max(last_received)",
        "latency": merged("latency"),
    }
    rows = tables.ledger.read().where("size(ranges) > 0").groupBy("device", "epoch")
    return rows.agg(*(F.expr(sql).alias(name) for name, sql in sums.items()))


def numbers(tables, proof):
    """The delivery of the numbers of each journal: one row for each device and epoch.

    accepted = delivered + on_device + erased + on_way + gone, where the last four are the places of missing().
    guessed: how many of `gone` are a guess. before: see _journals().
    """
    places = {"on_device": "place = 'device'", "erased": "place = 'erased'", "on_way": "place = 'way'"}
    places |= {"gone": "place = 'gone'", "guessed": "place = 'gone' AND NOT proved"}
    size = "sum(CASE WHEN {} THEN hi - lo + 1 ELSE 0 END)"
    away = missing(tables, proof).groupBy("device", "epoch")
    away = away.agg(*(F.expr(size.format(sql)).alias(name) for name, sql in places.items()))
    return _journals(tables).join(away, ["device", "epoch"], "left").fillna(0, list(places))


def shared(tables):
    """Devices for which messages of two journals alternate: two boards with one id."""
    journals = _journals(tables).select("device", "epoch", "first_received", "last_received")
    other = journals.selectExpr("device", "epoch AS other", "first_received AS began")
    both = journals.join(other, "device").where("epoch <> other AND began >= first_received")
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
    """Health messages with the columns of HEALTH_STEPS. Messages without a count of accepted ones are left out."""
    health = tables.health.read().withColumn("accepted", F.expr("counters['accepted']")).where("accepted IS NOT NULL")
    return _stepped(health.withColumn("dropped", F.expr("counters['dropped']")), rules.HEALTH_STEPS)


def health(tables):
    """The last health message of each device, and the sums of its counters over all restarts. A wake from deep sleep is
    not a restart."""
    ended = _stepped(health_messages(tables), rules.ENDS_STEPS)
    counted = {
        "restarts": "count_if(start AND was IS NOT NULL AND NOT reset <=> 'deep-sleep')",
        "resends": "sum(CASE WHEN ends THEN counters['resent'] END)",
        "connects": "sum(CASE WHEN ends THEN counters['connects'] END)",
        "outages": "sum(CASE WHEN ends THEN counters['outages'] END)",
        **rules.COUNTED,
        "full": "sum(CASE WHEN ends AND NOT reset <=> 'deep-sleep' THEN outbox_full END)",
        "resets": "collect_list(CASE WHEN start THEN reset END)",
        "last": "max_by(struct(heap, rssi, firmware, errors, outbox_full, journal_live, journal_used, journal_limit, "
        "journal_erases, journal_damaged, journal_where), struct(epoch_began, seq))",
    }
    return ended.groupBy("device").agg(*(F.expr(sql).alias(name) for name, sql in counted.items()))


def states(tables):
    """The last state that each device, or the broker with its will, has published; `state_since`, when it began;
    `next_s`: so many seconds after that message a device that sleeps reports again."""
    messages = tables.raw.read().where("kind = 'status' AND first AND state IS NOT NULL AND NOT retain")
    order = Window.partitionBy("device").orderBy("received", "seq")
    messages = messages.withColumn("begins", ~F.lag("state").over(order).eqNullSafe(F.col("state")))
    found = messages.groupBy("device").agg(
        F.expr("max_by(struct(state, next_s), struct(received, seq)) AS last_status"),
        F.expr("max(CASE WHEN begins THEN received END) AS state_since"),
    )
    return found.select("device", "last_status.*", "state_since")


def _silent(now):
    """SQL of the seconds since a device's last message, if that is much longer than it usually takes: what it told
    before it slept, or its mean interval. Else 0."""
    mean = "(unix_seconds(seen) - unix_seconds(since)) / (delivered + repeated - 1)"
    usual = f"coalesce(next_s, CASE WHEN delivered > 2 THEN {mean} END, {_DAY_S})"
    silence = f"{now!r}D - unix_seconds(seen)"
    return f"CASE WHEN {silence} > greatest({_SILENT_S}, 3 * {usual}) THEN {silence} ELSE 0D END"


_PLACES = ("accepted", "delivered", "on_device", "erased", "on_way", "gone", "guessed", "before")
_OF_JOURNALS = (*_PLACES, "repeated", "measurements", "odd_clock")
_OF_DEVICES = ("epochs", "dead_letters", "conflicts", "jumps", "restarts", "resends", "outages", "full")
_COUNTED = (*_OF_JOURNALS, *_OF_DEVICES, *rules.COUNTED)
COUNTS = (*_COUNTED, "given_up", "lost")


def devices(tables, proof, now):
    """One row for each device: delivery, health, latency of its telemetry in ms, seconds of an unusual silence until
    `now` (s since 1970) or 0. proof: a Proof.

    accepted = delivered + on_device + on_way + given_up + lost. given_up: `erased`, and of the numbers that are gone as
    many as the device counts as dropped, damaged or skipped. lost: the others."""
    counted = (
        numbers(tables, proof)
        .groupBy("device")
        .agg(
            *(F.sum(name).alias(name) for name in _OF_JOURNALS),
            F.count("*").alias("epochs"),
            F.min("first_received").alias("since"),
            F.max("last_received").alias("seen"),
            F.expr(merged("latency")).alias("latency"),
        )
    )
    dead = tables.dead_letters.read().where("device IS NOT NULL").groupBy("device")
    found = counted.join(dead.agg(F.count("*").alias("dead_letters")), "device", "full")
    two_boards = shared(tables).withColumn("shared", F.lit(True))
    for more in (health(tables), states(tables), conflicts(tables), clock_jumps(tables), two_boards):
        found = found.join(more, "device", "left")
    found = found.withColumn("latency_ms", F.expr(percentiles("latency")))
    found = found.fillna(0, [*_COUNTED]).fillna({"shared": False, "state": "unknown"})
    found = found.withColumn("silent", F.expr(_silent(float(now))))
    counted = "least(gone, dropped + damaged + skipped)"
    found = found.withColumn("given_up", F.expr(f"erased + {counted}"))
    return found.withColumn("lost", F.expr(f"gone - {counted}"))
