"""The facts of the report, computed from the tables: one dict that can be written as JSON."""

import contextlib
import math
import time
from collections import Counter

from inflight_tools.fleet.delta import last_batch
from inflight_tools.fleet.judgement import figures, kind
from inflight_tools.fleet.proof import GIVEN_UP
from inflight_tools.fleet.spark.landing import summary
from inflight_tools.fleet.where.answer import Unknown, answer

from . import latency, summaries, views
from .database import Database, moment
from .sketches import percentiles

_STEPS = (1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400)
_POINTS = 200
MOST_DEVICES = 500  # in a report; the fleet's sums include all
_MOST_EVENTS = 1000
_MOST_VERSIONS = _MOST_GROUPS = 50
_MOST_LOGS, _MOST_ROLLOUTS = 100, 20
_RELEASE_STATES = ("fetch", "trial", "good", "bad", "refused")
UNKNOWN, OTHERS = "unknown", "others"  # groups: of devices that tell none; of those that are not among the largest
# What health messages tell over time: name, unit, SQL of the value.
_TRENDS = (
    ("Wi-Fi signal", "dBm", "rssi"),
    ("free heap", "B", "heap"),
    ("journal in use", "B", "journal_used"),
    ("erased sectors of the journal", "", "journal_erases"),
    ("restarts", "", "restarts"),
)
_COUNTS = "accepted delivered on_device on_way given_up lost guessed before repeated measurements".split()
_WORST = (
    "impossible silent lost given_up conflicts dead_letters on_way on_device shared refused odd_clock restarts repeated"
).split()
_RESTART = f"(start AND was IS NOT NULL AND {views.NO_WAKE})"


def _step(seconds):
    """The shortest of _STEPS that divides `seconds` into at most _POINTS parts."""
    return next((step for step in _STEPS if seconds / step <= _POINTS), _STEPS[-1])


def _bucket(column, step):
    return f"CAST(floor(epoch({column}) / {step}) AS BIGINT) * {step} AS t"


def _journal(last):
    names = ("live", "used", "limit", "erases", "damaged")
    return last and {name: last[f"journal_{name}"] for name in names} | {"where": last["journal_where"]}


_FLAGS = {
    "two boards, one id": lambda row: row["shared"],
    "journal replaced": lambda row: row["epochs"] > 1 and not row["shared"],
    "clock wrong": lambda row: row["odd_clock"],
    "clock jumped": lambda row: row["jumps"],
    "time of receipt": lambda row: row["undated"],
    "journal was full": lambda row: row["refused"],
    "journal was thinned": lambda row: row["thinned"],
    "journal damaged": lambda row: row["last"] and row["last"]["journal_damaged"],
    "lost, or expired at the broker": lambda row: row["lost"] and row["expires"],
    "numbers before the first": lambda row: row["before"],
    "numbers that cannot be": lambda row: row["impossible"],
    "same number, other content": lambda row: row["conflicts"],
}


def device_of(row, latency_ms=None):
    """The facts of a device, of a row of listed()."""
    last = row["last"]
    device = {name: row[name] for name in ("device", "state", *_COUNTS, "epochs", "conflicts", "dead_letters")}
    device |= {name: row[name] for name in ("restarts", "resends", "silent", "nearly_full", "holds_s")}
    device |= {name: row[name] for name in ("safe", "board", "micropython", "group", "tail", "retired", "note")}
    device["gave_up"] = {name: row[name] for name in GIVEN_UP}
    device |= {"reconnects": row["outages"], "outbox_full": row["refused"], "former": row["former"] or []}
    device["resets"] = dict(Counter(row["resets"] or ()))
    device |= {"since": row["state_at"], "seen": row["seen_at"], "journal": _journal(last)}
    device |= {name: last[name] if last else None for name in ("heap", "rssi", "firmware")}
    device |= {"errors": dict((last and last["errors"]) or ()), "latency_ms": latency_ms}
    return device | {"flags": [flag for flag, is_so in _FLAGS.items() if is_so(row)]}


_DEVICES_NOW = (
    "count(*) AS devices, count(*) FILTER (silent > 0) AS silent, count(*) FILTER (nearly_full) AS nearly_full, "
    "count(*) FILTER (tail) AS tails, count(*) FILTER (impossible) AS impossible"
)
# Of numbers: of a device whose numbers cannot be they would hide what is known of all others.
_SUM = 'CAST(coalesce(sum("{0}") FILTER (NOT impossible), 0) AS BIGINT) AS "{0}"'


def _fleet(database):
    """The sums of the fleet, but the numbers of devices that are told apart; why devices gave up messages; and the sums
    of its groups, the largest first. From now on `found` is `devices`, with what _LISTED adds."""
    database.run(f"CREATE OR REPLACE TEMP TABLE found AS {_LISTED}")
    sums = ", ".join(map(_SUM.format, views.COUNTS))
    row = database.row(f"SELECT {sums}, {_DEVICES_NOW} FROM found")
    fleet = {name: row[name] for name in ("devices", *_COUNTS, "silent", "conflicts", "restarts", "resends")}
    fleet |= {"tails": row["tails"], "impossible": row["impossible"], "doubled": _doubled(database)}
    fleet |= {"reconnects": row["outages"], "outbox_full": row["refused"], "nearly_full": row["nearly_full"]}
    fleet["dead_letters"] = database.row("SELECT count(*) AS many FROM dead_letters")["many"]
    return {"fleet": fleet, "gave_up": {name: row[name] for name in GIVEN_UP}, "groups": _groups(database)}


def _groups(database):
    """A dict for each group. A dead letter of no device is in UNKNOWN; devices choose their groups, so they have a
    bound, beyond which they are OTHERS."""
    sums = ("devices", "silent", "nearly_full", "lost", "dead_letters")
    return database.rows(
        f"""WITH of_all AS (
            SELECT coalesce("group", '{UNKNOWN}') AS "group", {_DEVICES_NOW}, {_SUM.format("lost")},
                sum(dead_letters) AS dead_letters, min(holds_s) AS holds_s FROM found GROUP BY ALL
            UNION ALL BY NAME SELECT '{UNKNOWN}' AS "group", count(*) AS dead_letters
                FROM dead_letters WHERE device IS NULL),
        ranked AS (
            SELECT *, row_number() OVER (ORDER BY devices DESC, "group") AS rank FROM (
                SELECT "group", min(holds_s) AS holds_s, sum(COLUMNS(* EXCLUDE ("group", holds_s))) FROM of_all
                GROUP BY "group"))
        SELECT CASE WHEN rank <= {_MOST_GROUPS} THEN left("group", 64) ELSE '{OTHERS}' END AS "group",
            {", ".join(f"CAST(coalesce(sum({name}), 0) AS BIGINT) AS {name}" for name in sums)}, min(holds_s) AS holds_s
        FROM ranked GROUP BY ALL HAVING sum(devices) > 0 OR sum(dead_letters) > 0 ORDER BY devices DESC, "group" """
    )


def _devices(database, chosen=""):
    """A dict for each device of `found`. chosen: SQL behind FROM."""
    rows = database.rows(f"FROM found {chosen}")
    latencies = latency.of_devices(database, [one["device"] for one in rows])
    return [device_of(one, latencies.get(one["device"])) for one in rows]


def listed(database):
    """All devices as an Arrow table, the worst first, for device_of(); `words` are what one is found by."""
    return database.arrow(f"FROM found {_WORST_FIRST}")


def last_readings(database, names, now):
    """[{device, name, unit, value}]: the last reading of each series with one of these names that arrived in the day
    before `now`, in s since 1970. A boolean is 0 or 1."""
    return database.rows(
        f"""SELECT device, name, coalesce(unit, '') AS unit,
            arg_max(coalesce(value, CAST(flag AS DOUBLE)), time) AS value
        FROM every_measurements WHERE list_contains(?, name) AND received > {moment(now - 86_400)}
        GROUP BY ALL HAVING value IS NOT NULL ORDER BY ALL""",
        list(names),
    )


# rate: bytes of journal per second that what a device has published takes, on the day (UTC) of its last message and the
# day before, about: in an outage, when a device gathers readings, they take less. A backlog was published earlier than
# it was received. holds_s: for how long a journal holds what its device publishes, about; NULL if nothing tells.
_LISTED = f"""
SELECT *, epoch(state_since) AS state_at, epoch(seen) AS seen_at, on_way + on_device + given_up AS missing,
    last.journal_live AS live, (abs(free) + free) / 2 / nullif(rate, 0) AS holds_s,
    left(coalesce("group", '{UNKNOWN}'), 64) AS label,
    lower(concat_ws(' ', device, array_to_string(former, ' '), "group", note, state, board, last.firmware)) AS words
FROM (SELECT *, last.journal_limit - last.journal_used AS free FROM devices) LEFT JOIN (
    SELECT device, sum(bytes) / (epoch(max(until)) - epoch(min(began))) AS rate
    FROM (SELECT *, max(day) OVER (PARTITION BY device) AS newest FROM days WHERE delivered > 0)
    WHERE day >= newest - 1 GROUP BY device HAVING sum(delivered) > 2 AND max(until) > min(began)) USING (device)
LEFT JOIN (SELECT present AS device, list(old ORDER BY hops) AS former FROM renamed GROUP BY present) USING (device)
"""
_WORST_FIRST = f"ORDER BY {', '.join(f'{name} DESC' for name in _WORST)}, device"


def _doubled(database):
    """The number of rows that are stored twice. It must be 0."""
    before = """max(hi) OVER (PARTITION BY device, epoch ORDER BY lo, hi
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before"""
    # A run has `many` rows, for the numbers that no run before it has.
    runs = f"""SELECT sum(many - greatest(0, hi - greatest(lo - 1, coalesce(before, lo - 1)))) AS extra
        FROM (SELECT *, {before} FROM runs)"""
    counted = [runs, "SELECT sum(doubled) AS extra FROM packs ANTI JOIN common USING (device, epoch)"]
    # Files that have the same number may have the same records of it, or others: their rows tell.
    database.run(
        f"""CREATE OR REPLACE TEMP TABLE common AS
        SELECT DISTINCT device, epoch FROM (SELECT *, {before} FROM packs) WHERE lo <= before"""
    )
    if database.row("SELECT count(*) AS many FROM common")["many"]:
        counted.append(
            """SELECT sum(n - 1) AS extra FROM (
                SELECT count(*) AS n FROM measurements SEMI JOIN common USING (device, epoch) WHERE seq IS NOT NULL
                GROUP BY device, epoch, seq, place)"""
        )
    return database.row(
        f"SELECT CAST(coalesce(sum(extra), 0) AS BIGINT) AS extra FROM ({' UNION ALL '.join(counted)})"
    )["extra"]


# Numbers that are lost or given up, when the next number of their journal that arrived was received.
_GONE = """
FROM (SELECT device, epoch, gaps.hi + 1 AS seq, sum(missing.hi - missing.lo + 1) AS gone
    FROM missing JOIN gaps USING (device, epoch)
        ANTI JOIN impossible USING (device)
    WHERE place IN ('gone', 'erased') AND missing.lo BETWEEN gaps.lo AND gaps.hi GROUP BY ALL)
JOIN (SELECT device, epoch, lo AS seq, received FROM runs WHERE received IS NOT NULL) USING (device, epoch, seq)
"""


def _timeline(database, since, until):
    step = _step(until - since)
    delay = max(10, step)
    if step >= summaries.STEP_S:
        counts = {
            "received": "sum(received)",
            "backlog": f"sum(late_{delay})",
            **{name: f"sum({name})" for name in ("repeated", "offline", "dead_letters")},
        }
        source, bucket = "times WHERE t IS NOT NULL", f"t // {step} * {step} AS t"
    else:
        counts = {
            "received": "count(*) FILTER (first AND seq IS NOT NULL)",
            "backlog": f"count(*) FILTER (first AND seq IS NOT NULL AND made < received - INTERVAL {delay} SECONDS)",
            "repeated": "count(*) FILTER (NOT first)",
            "offline": "count(*) FILTER (first AND state = 'offline' AND NOT retain)",
            "dead_letters": "count(*) FILTER (first AND problem IS NOT NULL)",
        }
        source, bucket = "raw WHERE received IS NOT NULL", _bucket("received", step)
    told = ", ".join(f"CAST({sql} AS BIGINT) AS {name}" for name, sql in counts.items())
    rows = database.rows(f"SELECT {bucket}, {told} FROM {source} GROUP BY ALL")
    none = dict.fromkeys((*counts, "restarts", "gone"), 0)
    points = {row["t"]: none | row for row in rows}
    starts = f"FROM health_messages WHERE {_RESTART} GROUP BY t"
    for row in database.rows(f"SELECT {_bucket('received', step)}, count(*) AS restarts {starts}"):
        # `raw` may have nothing of that time any more.
        points.setdefault(row["t"], none | row)["restarts"] = row["restarts"]
    for row in database.rows(
        f"SELECT {_bucket('received', step)}, CAST(sum(gone) AS BIGINT) AS gone {_GONE} GROUP BY t"
    ):
        points[row["t"]]["gone"] = row["gone"]
    first, last = int(since // step * step), int(until // step * step)
    return {
        "step_s": step,
        "delay_s": delay,
        "points": [points.get(t, none | {"t": t}) for t in range(first, last + 1, step)],
    }


def _events(database):
    return database.rows(
        f"""SELECT epoch(received) AS t, device, what, detail FROM (
            SELECT received, device, CASE WHEN epoch <> epoch_before THEN 'lost journal' ELSE 'start' END AS what,
                coalesce(reset, '') AS detail FROM health_messages WHERE start AND {views.NO_WAKE}
            UNION ALL
            SELECT received, device, state AS what, '' AS detail FROM rare
            WHERE kind = 'status' AND first AND NOT retain AND state IN ('online', 'offline'))
        ORDER BY received DESC, device, what LIMIT {_MOST_EVENTS}"""
    )


_ENDS = "min(value) AS min, max(value) AS max"


def _series(database, names, since, until):
    """The measurements of the devices `names`."""
    step = _step(until - since)
    mine = "list_contains($1, device)"
    sums = database.rows(
        f"""SELECT device, name, unit, CAST(sum(count) AS BIGINT) AS count, sum(total) AS total, min(min) AS min,
            max(max) AS max, list(sketch) AS sketches FROM minutes WHERE {mine} GROUP BY device, name, unit""",
        names,
    )
    for row in sums:
        row["p50"], row["p95"], _ = percentiles(row.pop("sketches")) or (None, None, None)
    if step >= 60:
        points = f"""SELECT device, name, unit, {_bucket("minute", step)}, sum(total) / sum(count) AS mean,
            min(min) AS min, max(max) AS max FROM minutes WHERE {mine} GROUP BY ALL"""
    else:  # shorter than the rows of `minutes`, which are all that is left of old measurements
        points = f"""WITH kept AS (FROM measurements WHERE {mine} AND value IS NOT NULL),
            left_of AS (
                FROM minutes WHERE {mine} AND NOT EXISTS (
                    FROM kept WHERE (device, name, coalesce(unit, '')) =
                        (minutes.device, minutes.name, coalesce(minutes.unit, ''))
                        AND date_trunc('minute', time) = minutes.minute))
            SELECT device, name, unit, {_bucket("time", step)}, avg(value) AS mean, {_ENDS} FROM kept GROUP BY ALL
            UNION ALL SELECT device, name, unit, {_bucket("minute", step)}, sum(total) / sum(count) AS mean,
                min(min) AS min, max(max) AS max FROM left_of GROUP BY ALL"""
    return _assembled(names, database.rows(f"{points} ORDER BY t", names), sums)


def _trends(database, names, since, until):
    """What the health messages of the devices `names` tell, as series, like measurements."""
    each = ", ".join(
        f"{{'name': '{name}', 'unit': '{unit}', 'value': CAST({value} AS DOUBLE)}}" for name, unit, value in _TRENDS
    )
    database.run(
        f"""CREATE OR REPLACE TEMP TABLE told AS
        SELECT device, received, one.name, one.unit, one.value FROM (
            SELECT device, received, unnest([{each}]) AS one FROM (
                SELECT *, sum(CAST({_RESTART} AS INT)) OVER (PARTITION BY device ORDER BY received, seq) AS restarts
                FROM all_health WHERE list_contains(?, device)))
        WHERE one.value IS NOT NULL""",
        names,
    )
    bucket = _bucket("received", _step(until - since))
    points = f"SELECT device, name, unit, {bucket}, avg(value) AS mean, {_ENDS} FROM told GROUP BY ALL ORDER BY t"
    sums = f"""SELECT device, name, unit, count(*) AS count, sum(value) AS total, {_ENDS},
        quantile_disc(value, 0.5) AS p50, quantile_disc(value, 0.95) AS p95 FROM told GROUP BY ALL"""
    return _assembled(names, database.rows(points), database.rows(sums))


def _assembled(names, points, sums):
    """{device: [series, ...]}. points: rows with device, name, unit, t, mean, min, max, by time; sums: a row for each
    series."""
    found = {name: [] for name in names}
    lines = {}
    for row in points:
        key = row["device"], row["name"], row["unit"]
        lines.setdefault(key, []).append([row["t"], row["mean"], row["min"], row["max"]])
    for row in sorted(sums, key=lambda row: (row["name"], row["unit"] or "")):
        one = {name: row[name] for name in ("name", "unit", "count", "min", "max", "p50", "p95")}
        one["mean"] = row["total"] / row["count"]
        found[row["device"]].append(one | {"points": lines.get((row["device"], row["name"], row["unit"]), [])})
    return found


def _log(database):
    """[(time of receipt in s since 1970, line), ...], the newest first."""
    rows = database.rows(
        f"""SELECT epoch(received) AS t, TRY(from_json(decode(payload), '{{"lines": ["VARCHAR"]}}')).lines AS lines
            FROM rare WHERE kind = 'log' AND first ORDER BY received DESC, seq DESC LIMIT {_MOST_LOGS}"""
    )
    return [(row["t"], line) for row in rows for line in reversed(row["lines"] or ()) if line]


def _rollouts(database):
    """Of each release that devices fetch or try now: how many of the fleet's devices are in which state with it."""
    return database.rows(
        f"""WITH newest AS (
            SELECT device, arg_max(payload, (received, coalesce(seq, -1), payload)) AS payload,
                max(received) AS received
            FROM rare WHERE kind = 'release' AND problem IS NULL AND device IS NOT NULL GROUP BY device),
        told AS (
            SELECT epoch(received) AS t,
                TRY(from_json(decode(payload), '{{"release": "BIGINT", "state": "VARCHAR"}}')) AS one FROM newest),
        counted AS (
            SELECT one.release AS release, one.state AS state, count(*) AS devices, max(t) AS newest
            FROM told WHERE one.release IS NOT NULL AND one.state IN {_RELEASE_STATES} GROUP BY ALL)
        SELECT release, max(newest) AS newest, map_from_entries(list((state, devices))) AS states FROM counted
        GROUP BY release HAVING count(*) FILTER (state IN ('fetch', 'trial')) > 0
        ORDER BY release DESC LIMIT {_MOST_ROLLOUTS}"""
    )


def _dead_letters(database):
    # Reasons that differ only in numbers are one kind.
    rows = database.rows(
        r"""SELECT regexp_replace(reason, '\d+', '#', 'g') AS kind, count(*) AS count, epoch(min(received)) AS first,
            epoch(max(received)) AS last,
            arg_min({'reason': reason, 'topic': topic, 'content_type': content_type,
                'example': payload[1:200]}, (received, topic, reason, payload)) AS one
        FROM dead_letters GROUP BY kind ORDER BY count DESC, kind LIMIT 50"""
    )
    return [
        {
            "reason": row["one"]["reason"] if row["one"] else row["kind"],
            "count": row["count"],
            "first": row["first"],
            "last": row["last"],
            "topic": row["one"] and row["one"]["topic"],
            "content_type": row["one"] and row["one"]["content_type"],
            "example": bytes(row["one"]["example"]).decode("utf-8", "backslashreplace") if row["one"] else "",
        }
        for row in rows
    ]


def gather(root, topics, chosen=(), worst=10, counters=(), **how):
    """Returns the facts of the fleet below `topics`, from the tables in the folder or URI `root`. They contain the
    measurements and the health over time of the devices `chosen`, and of the `worst` worst ones. counters: what
    counters.load() returned. how: as judged() has them. A number that JSON has not, NaN or infinity, is None. Raises
    WrongTables."""
    with judged(root, topics, **how) as (database, facts):
        return gathered(database, facts, chosen, worst, counters)


def gathered(database, facts, chosen=(), worst=10, counters=()):
    """As gather(), of what judged() gives."""
    found = _gathered(database, chosen, worst, facts["since"], facts["until"])
    return _as_json(_judgement(facts | {"counters": list(counters)} | found))


def of_device(root, topics, device, number=None, epoch=None, landing=None, **how):
    """The facts of one device, None if it is not known: the only one in `devices`, with its measurements and health
    over time, and the newest messages of its `log`. way: that of message `number`, as where.answer.answer() returns it
    for `epoch` and `landing`, or {"unknown": why}. how: as judged() has them. Raises WrongTables."""
    with judged(root, topics, **how) as (database, facts):
        database.only(device)
        facts |= _fleet(database) | {"devices": _devices(database), "way": None}
        if not facts["devices"]:
            return None
        if number is not None:
            try:
                facts["way"] = answer(database, device, number, landing, root, topics, epoch)
            except Unknown as e:
                facts["way"] = {"unknown": str(e)}
        facts |= {"dead_letters": _dead_letters(database), "log": _log(database), "events": [], "measurements": {}}
        if facts["since"] is not None:
            times = facts["since"], facts["until"]
            names = database.names(device)[:1]
            facts |= {"events": _events(database), "trends": _trends(database, names, *times)}
            facts["measurements"] = _series(database, names, *times)
        return _as_json(_judgement(facts))


def _judgement(facts):
    return facts | {"judgement": {"kind": kind(facts), **figures(facts)}}


def totals(root, topics, **how):
    """Of the facts that gather() returns those that tell whether somebody must be told: the sums. Raises WrongTables;
    FileNotFoundError without tables."""
    with judged(root, topics, **how) as (database, facts):
        if not database.tables["raw"]:
            raise FileNotFoundError(f"there are no tables in {root}: has `inflight fleet tables` run?")
        return _judgement(facts | _fleet(database))


@contextlib.contextmanager
def judged(root, topics, grace_s=3600, now=None, unread=None, **how):
    """The Database of the tables in `root` with the views of views.judge(), and what that tells. unread: what
    LandingFiles.unread() returned before. now: in s since 1970. grace_s, how: as views.judge() has them."""
    now = time.time() if now is None else now
    facts = {"made": now, "root": topics, "grace_s": grace_s, "asked": [how.get("since"), how.get("until")]}
    facts["unread"] = summary(unread or {}, now)
    with Database(root) as database:
        collectors, span = views.judge(database, now, grace_s, unread=facts["unread"]["stale"] > 0, **how)
        facts |= {"batch": last_batch(database.tables["ledger"]), "differences": database.differences}
        yield database, facts | {"collectors": collectors, **span}


def _as_json(value):
    # Tables may have such numbers from before there was a bound for a measurement.
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _gathered(database, chosen, worst, since, until):
    facts = _fleet(database)
    facts["fleet"]["latency_ms"] = latency.of_fleet(database)
    devices = _devices(database, f"{_WORST_FIRST} LIMIT {MOST_DEVICES}")
    facts |= {"devices": devices, "dead_letters": _dead_letters(database), "rollouts": _rollouts(database)}
    # Of the newest health message; None: no health message has told.
    facts["versions"] = database.rows(
        f"""SELECT last.firmware AS firmware, count(*) AS devices FROM found GROUP BY ALL
        ORDER BY devices DESC, firmware LIMIT {_MOST_VERSIONS}"""
    )
    if since is None:
        nothing = {"timeline": {"step_s": 1, "delay_s": 10, "points": []}, "events": []}
        return facts | nothing | {"measurements": {}, "trends": {}}
    chosen = [database.names(name)[0] for name in chosen]
    known = set(database.values("SELECT device FROM found WHERE list_contains(?, device)", chosen))
    shown = [name for name in chosen if name in known] + [device["device"] for device in devices[:worst]]
    shown = list(dict.fromkeys(shown))
    facts |= {"timeline": _timeline(database, since, until), "events": _events(database)}
    facts["measurements"] = _series(database, shown, since, until)
    return facts | {"trends": _trends(database, shown, since, until)}
