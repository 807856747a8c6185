"""The facts of the report, computed from the tables: one dict that can be written as JSON."""

import time
from collections import Counter

from pyspark.sql import Window
from pyspark.sql import functions as F

from inflight_tools.fleet.proof import GIVEN_UP, Proof

from . import views
from .landing import summary
from .schema import fold_sums, merged

_STEPS = (1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400)
_POINTS = 200
MOST_DEVICES = 500  # in a report; the fleet's sums include all
_MOST_EVENTS = 1000
_MOST_VERSIONS = 50
# What health messages tell over time: name, unit, SQL of the value.
_TRENDS = (
    ("Wi-Fi signal", "dBm", "rssi"),
    ("free heap", "B", "heap"),
    ("journal in use", "B", "journal_used"),
    ("erased sectors of the journal", "/", "journal_erases"),
    ("restarts", "/", "restarts"),
)
_OLDEST = 1_577_836_800  # 2020, in s since 1970: no message is older
_COUNTS = (
    *("accepted", "delivered", "on_device", "on_way", "given_up", "lost", "guessed"),
    *("before", "repeated", "measurements"),
)
_WORST = (
    *("silent", "lost", "given_up", "conflicts", "dead_letters", "on_way", "on_device"),
    *("shared", "full", "odd_clock", "restarts", "repeated"),
)


def _seconds(moment):
    return moment and moment.timestamp()


def _latency(values):
    return values and dict(zip(("p50", "p95", "p99"), values, strict=True))


def _step(seconds):
    """The shortest of _STEPS that divides `seconds` into at most _POINTS parts."""
    return next((step for step in _STEPS if seconds / step <= _POINTS), _STEPS[-1])


def _journal(last):
    names = ("live", "used", "limit", "erases", "damaged")
    return last and {name: last[f"journal_{name}"] for name in names} | {"where": last["journal_where"]}


_FLAGS = {
    "two boards, one id": lambda row: row["shared"],
    "journal replaced": lambda row: row["epochs"] > 1 and not row["shared"],
    "same number, other content": lambda row: row["conflicts"],
    "clock wrong": lambda row: row["odd_clock"],
    "clock jumped": lambda row: row["jumps"],
    "journal was full": lambda row: row["full"],
    "journal damaged": lambda row: row["last"] and row["last"]["journal_damaged"],
    "numbers before the first": lambda row: row["before"],
}


def _device(row):
    last = row["last"]
    device = {name: row[name] for name in ("device", "state", *_COUNTS, "epochs", "conflicts", "dead_letters")}
    device |= {name: row[name] for name in ("restarts", "resends", "silent")}
    device["gave_up"] = {name: row[name] for name in GIVEN_UP}
    device |= {"reconnects": row["outages"], "outbox_full": row["full"], "resets": dict(Counter(row["resets"] or ()))}
    device |= {"since": _seconds(row["state_since"]), "seen": _seconds(row["seen"]), "journal": _journal(last)}
    device |= {name: last[name] if last else None for name in ("heap", "rssi", "firmware")}
    device |= {"errors": (last and last["errors"]) or {}, "latency_ms": _latency(row["latency_ms"])}
    return device | {"flags": [flag for flag, is_so in _FLAGS.items() if is_so(row)]}


def _devices(tables, proof, now):
    """The sums of the fleet, a dict for each of the worst MOST_DEVICES devices, and how many run which firmware."""
    found = views.devices(tables, proof, now).persist()
    try:
        sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in views.COUNTS]
        sums += [F.count("*").alias("devices"), F.count_if(F.col("silent") > 0).alias("silent")]
        row = found.agg(*sums, F.expr(merged("latency")).alias("latency"))
        row = row.withColumn("latency_ms", F.expr(views.percentiles("latency"))).first()
        worst = found.orderBy(*(F.desc(name) for name in _WORST), "device").limit(MOST_DEVICES)
        devices = [_device(one) for one in worst.drop("latency").collect()]
        versions = _versions(found)
    finally:
        found.unpersist()
    fleet = {name: row[name] for name in ("devices", *_COUNTS, "silent", "conflicts", "restarts", "resends")}
    fleet |= {"reconnects": row["outages"], "outbox_full": row["full"], "latency_ms": _latency(row["latency_ms"])}
    return fleet, devices, versions


def _versions(devices):
    """How many devices run each firmware, most first; None: no health message has told."""
    found = devices.groupBy("last.firmware").agg(F.count("*").alias("devices"))
    ordered = found.orderBy(F.desc("devices"), "firmware").limit(_MOST_VERSIONS)
    return [row.asDict() for row in ordered.collect()]


def _doubled(tables):
    """The number of rows that are stored twice. It must be 0."""

    def extra(rows, *key):
        return rows.groupBy(*key).count().agg(F.coalesce(F.sum("count") - F.count("*"), F.lit(0))).first()[0]

    raw = tables.raw.read().where("first AND seq IS NOT NULL")
    key = ("device", "epoch", "seq")
    return extra(raw, *key) + extra(tables.measurements.read().where("seq IS NOT NULL"), *key, "place")


def _bucket(column, step):
    return F.expr(f"(unix_seconds({column}) DIV {step}) * {step}").alias("t")


def _timeline(tables, since, until):
    step = _step(until - since)
    delay = max(10, step)
    messages = tables.raw.read().where("received IS NOT NULL").groupBy(_bucket("received", step))
    counts = {
        "received": "count_if(first AND seq IS NOT NULL)",
        "backlog": f"count_if(first AND seq IS NOT NULL AND made < received - INTERVAL {delay} SECONDS)",
        "repeated": "count_if(NOT first)",
        "offline": "count_if(first AND state = 'offline' AND NOT retain)",
        "dead_letters": "count_if(first AND problem IS NOT NULL)",
    }
    rows = messages.agg(*(F.expr(sql).alias(name) for name, sql in counts.items())).collect()
    points = {row["t"]: row.asDict() | {"restarts": 0} for row in rows}
    starts = views.health_messages(tables).where("start AND was IS NOT NULL AND NOT reset <=> 'deep-sleep'")
    for row in starts.groupBy(_bucket("received", step)).count().collect():
        points[row["t"]]["restarts"] = row["count"]
    none = dict.fromkeys((*counts, "restarts"), 0)
    first, last = int(since // step * step), int(until // step * step)
    return {
        "step_s": step,
        "delay_s": delay,
        "points": [points.get(t, none | {"t": t}) for t in range(first, last + 1, step)],
    }


def _events(tables):
    starts = views.health_messages(tables).where("start AND NOT reset <=> 'deep-sleep'")
    what = "CASE WHEN epoch <> epoch_before THEN 'lost journal' ELSE 'start' END AS what"
    starts = starts.selectExpr("received", "device", what, "coalesce(reset, '') AS detail")
    messages = tables.raw.read().where("kind = 'status' AND first AND NOT retain AND state IN ('online', 'offline')")
    messages = messages.selectExpr("received", "device", "state AS what", "'' AS detail")
    newest = starts.unionByName(messages).orderBy(F.desc("received")).limit(_MOST_EVENTS).collect()
    return [
        {"t": _seconds(received), "device": device, "what": what, "detail": detail}
        for received, device, what, detail in newest
    ]


def _series(tables, names, since, until):
    """The measurements of the devices `names`."""
    step = _step(until - since)
    wanted = F.col("device").isin(names)
    sums = fold_sums(tables.minutes.read().where(wanted), "device", "name", "unit")
    sums = sums.withColumn("p", F.expr(views.percentiles("sketch")))
    if step >= 60:
        points = fold_sums(tables.minutes.read().where(wanted), "device", "name", "unit", _bucket("minute", step))
        points = points.selectExpr("device", "name", "unit", "t", "total / count AS mean", "min", "max")
    else:  # shorter than the rows of `minutes`
        rows = tables.measurements.read().where(wanted).where("value IS NOT NULL")
        points = rows.groupBy("device", "name", "unit", _bucket("time", step)).agg(
            F.mean("value").alias("mean"), F.min("value").alias("min"), F.max("value").alias("max")
        )
    return _assembled(names, points, sums)


def _trends(tables, names, since, until):
    """What the health messages of the devices `names` tell, as series like those of measurements."""
    order = Window.partitionBy("device").orderBy("received", "seq")
    restarted = F.expr("CAST(start AND was IS NOT NULL AND NOT reset <=> 'deep-sleep' AS INT)")
    health = views.health_messages(tables).where(F.col("device").isin(names))
    health = health.withColumn("restarts", F.sum(restarted).over(order))
    each = ", ".join(f"'{name}', '{unit}', CAST({value} AS DOUBLE)" for name, unit, value in _TRENDS)
    told = health.selectExpr("device", "received", f"stack({len(_TRENDS)}, {each}) AS (name, unit, value)")
    told = told.where("value IS NOT NULL").persist()
    try:
        key = ("device", "name", "unit")
        ends = (F.min("value").alias("min"), F.max("value").alias("max"))
        points = told.groupBy(*key, _bucket("received", _step(until - since))).agg(F.mean("value").alias("mean"), *ends)
        p = F.expr("percentile_approx(value, array(0.5D, 0.95D)) AS p")
        sums = told.groupBy(*key).agg(F.count("*").alias("count"), F.sum("value").alias("total"), *ends, p)
        return _assembled(names, points, sums)
    finally:
        told.unpersist()


def _assembled(names, points, sums):
    """{device: [series, ...]}. points: rows with device, name, unit, t, mean, min, max; sums: a row for each series."""
    found = {name: [] for name in names}
    lines = {}
    for row in points.orderBy("t").collect():
        key = row["device"], row["name"], row["unit"]
        lines.setdefault(key, []).append([row["t"], row["mean"], row["min"], row["max"]])
    for row in sums.orderBy("name").collect():
        one = {name: row[name] for name in ("name", "unit", "count", "min", "max")}
        one |= {"mean": row["total"] / row["count"], "p50": row["p"][0], "p95": row["p"][1]}
        found[row["device"]].append(one | {"points": lines.get((row["device"], row["name"], row["unit"]), [])})
    return found


def _dead_letters(tables):
    # Reasons that differ only in numbers are one kind.
    kind = F.regexp_replace("reason", r"\d+", "#").alias("kind")
    rows = (
        tables.dead_letters.read()
        .groupBy(kind)
        .agg(
            F.count("*").alias("count"),
            F.min("received").alias("first"),
            F.max("received").alias("last"),
            F.expr("min_by(struct(reason, topic, substring(payload, 1, 200) AS example), received)").alias("one"),
        )
    )
    return [
        {
            "reason": row["one"]["reason"] if row["one"] else row["kind"],
            "count": row["count"],
            "first": _seconds(row["first"]),
            "last": _seconds(row["last"]),
            "topic": row["one"] and row["one"]["topic"],
            "example": bytes(row["one"]["example"]).decode("utf-8", "backslashreplace") if row["one"] else "",
        }
        for row in rows.orderBy(F.desc("count")).limit(50).collect()
    ]


def gather(tables, topics, grace_s=3600, chosen=(), worst=10, now=None, unread=None, retired=()):
    """Returns the facts of the fleet below `topics`. grace_s: where nothing proves what became of a missing number, it
    is lost if a later one arrived so long ago. They contain the measurements and the health over time of the devices
    `chosen`, and of the `worst` worst ones. unread: what Landing.unread() returned before. retired: collectors that
    never return."""
    now = time.time() if now is None else now
    # A collector's clock may have been wrong.
    span = tables.raw.read().where(f"unix_seconds(received) BETWEEN {_OLDEST} AND {int(now) + 86_400}")
    span = span.agg(F.min("received"), F.max("received")).first()
    since, until = (_seconds(moment) for moment in span)
    facts = {"made": now, "root": topics, "grace_s": grace_s, "since": since, "until": until}
    facts["unread"] = summary(unread or {}, now)
    collectors = views.collectors(tables, retired)
    proof = Proof([one["marked"] for one in collectors], now - grace_s, facts["unread"]["stale"] > 0)
    facts["collectors"] = [
        row.asDict() | {name: _seconds(row[name]) for name in ("seen", "marked")} for row in collectors
    ]
    fleet, devices, versions = _devices(tables, proof, now)
    fleet |= {"doubled": _doubled(tables), "dead_letters": tables.dead_letters.read().count()}
    facts |= {"fleet": fleet, "devices": devices, "versions": versions, "dead_letters": _dead_letters(tables)}
    if since is None:
        nothing = {"timeline": {"step_s": 1, "delay_s": 10, "points": []}, "events": []}
        return facts | nothing | {"measurements": {}, "trends": {}}
    known = {device["device"] for device in devices}
    shown = [name for name in chosen if name in known] + [device["device"] for device in devices[:worst]]
    shown = list(dict.fromkeys(shown))
    facts |= {"timeline": _timeline(tables, since, until), "events": _events(tables)}
    facts["measurements"] = _series(tables, shown, since, until)
    return facts | {"trends": _trends(tables, shown, since, until)}
