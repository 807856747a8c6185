"""Views: the delivery and health of each device, where missing numbers are, and aggregates of measurements."""

from inflight_tools.fleet import proof as rules

from .database import moment
from .summaries import ACCEPTED

OVERLAP_S = 60  # if messages of two journals alternate for longer, there are two devices
_SILENT_S = 600  # shorter silence is no alarm
_DAY_S = 86_400
_NEARLY_FULL = 0.8  # of a journal's limit
_OLDEST = 1_577_836_800  # 2020, in s since 1970: no message is older
# So few of all deliveries are told apart if the time of all would be so many times as long: a clock was wrong.
_FEW, _LEAST = 0.001, 20
_APART = 20
# Counters of health messages, of numbers that a journal gave up.
_OF_JOURNAL = "journal_damaged", "journal_skipped"
NO_WAKE = "reset IS DISTINCT FROM 'deep-sleep'"  # a wake from deep sleep is not a restart

_TOLD = {name: f"counters['{name}']" for name in ("accepted", "dropped", "thinned", "damaged", "resent", "outages")}


def _count(sql):
    """SQL of a count that a device tells: NULL if it is no count of messages. Sums of any numbers might overflow, and a
    report of the whole fleet fail."""
    return f"CASE WHEN {sql} BETWEEN 0 AND {(1 << 32) - 1} THEN {sql} END"


# The numbers that have arrived. Ranges of several batches may be adjacent; they do not overlap.
_RANGES = """
SELECT device, epoch, r.lo, r.hi FROM (SELECT device, epoch, unnest(ranges) AS r FROM ledger)
"""
_GAPS = """
SELECT device, epoch, before + 1 AS lo, lo - 1 AS hi
FROM (SELECT *, lag(hi, 1, -1) OVER (PARTITION BY device, epoch ORDER BY lo) AS before FROM ranges)
WHERE before + 1 < lo
"""
# Of a time: numbers that are missing belong to it if the next number that arrived was received then.
_GAPS_OF_A_TIME = f"""
SELECT device, epoch, lo, hi FROM ({_GAPS})
SEMI JOIN (SELECT device, epoch, lo - 1 AS hi FROM runs) USING (device, epoch, hi)
"""
_JOURNALS = """
SELECT * FROM
    (SELECT device, epoch, sum(hi - lo + 1) AS delivered FROM ranges GROUP BY ALL)
    JOIN (SELECT device, epoch, sum(repeated) AS repeated, sum(measurements) AS measurements,
        sum(odd_clock) AS odd_clock, min(first_received) AS first_received, max(last_received) AS last_received
        FROM ledger GROUP BY ALL) USING (device, epoch)
"""
# The same of what was received in a time: `raw` has it, but the ledger has not.
_JOURNALS_OF_A_TIME = """
SELECT arrived.*, coalesce(measurements, 0) AS measurements, coalesce(odd_clock, 0) AS odd_clock
FROM (SELECT device, epoch, CAST(sum(delivered) AS BIGINT) AS delivered, CAST(sum(repeated) AS BIGINT) AS repeated,
        min(since) AS first_received, max(until) AS last_received
        FROM days WHERE delivered + repeated > 0 GROUP BY device, epoch) AS arrived
    LEFT JOIN (SELECT device, epoch, count(*) AS measurements,
        count(DISTINCT seq) FILTER (clock IN ('ahead', 'behind')) AS odd_clock
        FROM measurements WHERE seq IS NOT NULL GROUP BY ALL) USING (device, epoch)
"""
# accepted = delivered + on_device + erased + on_way + gone. guessed: how many of `gone` are a guess. before: numbers of
# which nothing shows that a collector was subscribed when the broker acknowledged them. given_up: `erased`, and of the
# numbers that are gone as many as the device counts as dropped, damaged or skipped while it had that journal. lost: the
# others.
_NUMBERS = f"""
WITH away AS (
    SELECT device, epoch,
        sum(CASE WHEN place = 'before' THEN hi - lo + 1 ELSE 0 END) AS before,
        sum(CASE WHEN place = 'device' THEN hi - lo + 1 ELSE 0 END) AS on_device,
        sum(CASE WHEN place = 'erased' THEN hi - lo + 1 ELSE 0 END) AS erased,
        sum(CASE WHEN place = 'way' THEN hi - lo + 1 ELSE 0 END) AS on_way,
        sum(CASE WHEN place = 'gone' THEN hi - lo + 1 ELSE 0 END) AS gone,
        sum(CASE WHEN place = 'gone' AND NOT proved THEN hi - lo + 1 ELSE 0 END) AS guessed
    FROM missing GROUP BY ALL)
SELECT *, coalesce(erased, 0) + counted AS given_up, coalesce(gone, 0) - counted AS lost,
    delivered + coalesce(on_device + erased + on_way + gone, 0) AS accepted
FROM (
    SELECT *, least(coalesce(gone, 0), coalesce({" + ".join(rules.COUNTED)}, 0)) AS counted
    FROM journals FULL JOIN lives USING (device, epoch) LEFT JOIN away USING (device, epoch))
"""
# Journals in the order of their first messages: was one of those before still in use? A join would compare all devices.
_SHARED = f"""
SELECT DISTINCT device FROM (
    SELECT device, first_received, max(last_received) OVER (PARTITION BY device ORDER BY first_received,
        last_received DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS used
    FROM journals)
WHERE used > first_received + INTERVAL {OVERLAP_S} SECONDS
"""
# How many contents arrived whose number another one has: they have no place.
_CONFLICTS = """
SELECT device, CAST(sum(contents - 1) AS BIGINT) AS conflicts FROM (
    SELECT device, epoch, seq, count(DISTINCT digest) AS contents FROM (
        SELECT device, epoch, seq, digest FROM repeats
        UNION ALL SELECT device, epoch, seq, digest FROM digests SEMI JOIN repeats USING (device, epoch, seq))
    GROUP BY ALL HAVING contents > 1)
GROUP BY device
"""
_MARKS = "kind = 'collector' AND retain IS NOT TRUE"  # a retained one has not waited behind other messages
# How often the clock went back by more than a minute between two messages.
_CLOCK_JUMPS = """
SELECT device, CAST(sum(jumps + CAST(coalesce(began < before - INTERVAL 60 SECONDS, false) AS INT)) AS BIGINT) AS jumps
FROM (SELECT *, lag(ended) OVER (PARTITION BY device, epoch ORDER BY lo) AS before FROM runs WHERE began IS NOT NULL)
GROUP BY device
"""
# How many readings have the time of receipt, and a device may still date them.
_UNDATED = "SELECT device, sum(count) AS undated FROM minutes WHERE up IS NOT NULL GROUP BY device"
# The last health message of each journal, and the sums of its counters over all restarts, until and since a time.
_COUNTERS = {
    "resends": "sum(CASE WHEN ends THEN resent END)",
    "outages": "sum(CASE WHEN ends THEN outages END)",
    **rules.COUNTED,
    "refused": f"sum(CASE WHEN ends AND {NO_WAKE} THEN outbox_full END)",
}
_SUMS = f"""
SELECT device, epoch, {", ".join(f"{sql} AS {name}" for name, sql in _COUNTERS.items())},
    max(row(epoch_began, epoch, seq)) AS place,
    arg_max(struct_pack(heap, rssi, firmware, errors, journal_live, journal_used, journal_limit, journal_erases,
        journal_damaged, journal_where), seq) AS last
FROM ({{lives}}) GROUP BY device, epoch
"""
# What a device gave up before a time is known from its first health message at that time or later: `given`. Nothing
# tells when it did, so of a time all counts that may be of it do: else a number that was given up would be called lost.
_LIVES = f"""
WITH told AS ({{told}}), earlier AS ({{earlier}}), given AS ({{given}})
SELECT device, epoch, told.last, told.place, {
    ", ".join(
        f"greatest(0, coalesce({'given' if name in rules.COUNTED else 'told'}.{name}, 0) - "
        f"coalesce(earlier.{name}, 0)) AS {name}"
        for name in _COUNTERS
    )
}
FROM given LEFT JOIN told USING (device, epoch) LEFT JOIN earlier USING (device, epoch)
"""
_NEXT_HEALTH = f"""
SELECT device, min(received) FROM every_health WHERE received >= {{}} AND {_count(_TOLD["accepted"])} IS NOT NULL
GROUP BY device
"""
# The last state that each device, or the broker with its will, has published; state_since: when it began; next_s: so
# many seconds after that message a device that sleeps reports again.
# told: what it has said of itself when it was last online. A will says only that the device is gone; that of an earlier
# name may come behind what the device tells under its present one.
_STATES = """
SELECT device, last_status, state_since,
    TRY(from_json(decode(last_status.payload), '{{"safe": "BOOLEAN"}}')).safe AS safe,
    TRY(from_json(decode(birth), '{{"board": "VARCHAR", "micropython": "VARCHAR", "group": "VARCHAR"}}')) AS told
FROM (
    SELECT device, arg_max(struct_pack(state, next_s, payload, epoch, seq), place) AS last_status,
        arg_max(received, place) FILTER (begins) AS state_since,
        arg_max(payload, place) FILTER (state = 'online') AS birth
    FROM (
        SELECT *, state IS DISTINCT FROM lag(state) OVER (PARTITION BY device ORDER BY place) AS begins
        FROM (SELECT *, row(-coalesce(hops, 0), received, coalesce(seq, -1), payload) AS place FROM every_rare)
        WHERE kind = 'status' AND first AND state IS NOT NULL AND NOT retain AND {before})
    GROUP BY device)
"""
# The lowest number that came without RETAIN. Of tables of earlier versions only the deliveries tell it.
_LIVE = """
SELECT device, epoch, min(live) AS live
FROM (SELECT device, epoch, live FROM ledger UNION ALL SELECT device, epoch, live FROM every_days) GROUP BY ALL
"""
_MANY = "coalesce(list_sum(list_transform(ranges, lambda r: r.hi - r.lo + 1)), 0)"
# Devices with numbers that cannot be.
_IMPOSSIBLE = f"""
SELECT DISTINCT device FROM (
    SELECT device, epoch, gaps.hi - gaps.lo + 1 AS many, abs(epoch(above.began) - epoch(below.ended)) AS made_s, pace_s
    FROM ({_GAPS}) AS gaps JOIN (
            SELECT device, epoch, (epoch(max(last_received)) - epoch(min(first_received)))
                / nullif(sum({_MANY}) - 1, 0) AS pace_s
            FROM ledger GROUP BY ALL) USING (device, epoch)
        LEFT JOIN (SELECT device, epoch, lo - 1 AS hi, began FROM every_runs) AS above USING (device, epoch, hi)
        LEFT JOIN (SELECT device, epoch, hi + 1 AS lo, ended FROM every_runs) AS below
            ON (below.device, below.epoch, below.lo) = (gaps.device, gaps.epoch, gaps.lo)
    WHERE many >= {rules.HUGE})
WHERE {rules.IMPOSSIBLE}
"""
# Of starts of a device that were behind the time {0}: the first numbers of those that may matter. Of two boards with
# one image nobody knows which one has told.
_STARTS = """
SELECT device, epoch, boot, min(until) >= {0} AS by_receipt
FROM every_boots JOIN live USING (device, epoch) ANTI JOIN conflicts USING (device)
WHERE boot < live GROUP BY ALL HAVING max(latest) >= {0} OR by_receipt
"""
# Of the journals in `starts`: the lowest number that proof.RECEIVABLE gives by markers. behind: a number was routed
# behind a marker of that time.
_STARTED = f"""
WITH marks AS (
    SELECT "by", received, max(epoch(made)) OVER (PARTITION BY "by" ORDER BY received) AS sent
    FROM every_rare SEMI JOIN trusted USING ("by") WHERE {_MARKS}),
mine AS (
    SELECT device, epoch, seq, "by", received, oldest FROM every_raw SEMI JOIN starts USING (device, epoch)
    WHERE first AND seq IS NOT NULL AND retain IS NOT TRUE),
routed AS (
    SELECT device, epoch, seq, max(sent) OVER (PARTITION BY device, epoch ORDER BY seq) AS behind
    FROM mine ASOF LEFT JOIN marks ON mine."by" = marks."by" AND mine.received > marks.received),
told AS (
    SELECT device, epoch, oldest, up, seq - {ACCEPTED} AS boot
    FROM every_health JOIN mine USING (device, epoch, seq) WHERE up >= 0)
SELECT told.device, told.epoch, min(greatest(0, boot)) AS started FROM told ASOF JOIN routed
    ON told.device = routed.device AND told.epoch = routed.epoch AND told.oldest > routed.seq
WHERE behind - {rules.SLOW} * up >= {{0}} GROUP BY ALL
"""
# expires: the longest expiry with which a message of the device arrived, in s.
_EXPIRIES = "SELECT device, max(expiry) AS expires FROM days WHERE expiry IS NOT NULL GROUP BY device"
_PLACES = "accepted delivered on_device erased on_way gone guessed before given_up lost"
_OF_JOURNALS = *f"{_PLACES} repeated measurements odd_clock".split(), *_COUNTERS
COUNTS = (*_OF_JOURNALS, *"epochs dead_letters conflicts jumps undated restarts".split())
# Whether nothing tells what became of the messages behind the last one that arrived: of a device that has vanished, and
# not said good-bye with a number; of an earlier journal. Of a retired one the operator knows.
_TAIL = """
NOT retired AND (silent > 0 OR epochs > 1 OR state = 'offline') AND NOT coalesce(last_status.seq = last_number
    AND state = 'offline' AND epochs = 1, false)
"""
# One row for each device. accepted = delivered + on_device + on_way + given_up + lost. "group": that of the registry,
# else the label in its configuration, else its board.
_DEVICES = f"""
WITH counted AS (
    SELECT device, {", ".join(f"sum({name}) AS {name}" for name in _OF_JOURNALS)}, count(delivered) AS epochs,
        arg_max(last, place) AS last
    FROM numbers GROUP BY device),
restarted AS (
    SELECT device, count(*) FILTER (was IS NOT NULL AND {NO_WAKE}) AS restarts,
        list(reset) FILTER (reset IS NOT NULL) AS resets
    FROM health_messages WHERE start GROUP BY device),
dead AS (SELECT device, count(*) AS dead_letters FROM dead_letters WHERE device IS NOT NULL GROUP BY device),
joined AS (
    SELECT device, {", ".join(f"CAST(coalesce({name}, 0) AS BIGINT) AS {name}" for name in COUNTS)},
        since, seen, numbered, last_number, resets, last, coalesce(last_status.state, 'unknown') AS state,
        last_status, last_status.next_s AS next_s, state_since, impossible.device IS NOT NULL AS impossible, expires,
        shared.device IS NOT NULL AS shared,
        coalesce(safe, false) AS safe, told.board AS board, told.micropython AS micropython,
        coalesce(registered."group", told."group", told.board) AS "group", registered.interval_s AS interval_s,
        registered.note AS note, coalesce(epoch(seen) <= registered.retired, false) AS retired,
        coalesce(last.journal_limit > 0 AND last.journal_used >= {_NEARLY_FULL} * last.journal_limit, false)
            AS nearly_full
    FROM counted FULL JOIN dead USING (device) FULL JOIN heard USING (device)
        LEFT JOIN restarted USING (device) LEFT JOIN states USING (device)
        LEFT JOIN conflicts USING (device) LEFT JOIN clock_jumps USING (device) LEFT JOIN shared USING (device)
        LEFT JOIN undated USING (device) LEFT JOIN impossible USING (device)
        LEFT JOIN expiries USING (device) LEFT JOIN registered USING (device))
SELECT * EXCLUDE (last_status, numbered, interval_s), {_TAIL} AS tail
FROM (SELECT *, {{silent}} AS silent FROM joined)
"""


_ORDER = "PARTITION BY device, epoch ORDER BY lo, hi"


def _stepped(query, steps):
    """The SQL `query` with the columns of `steps`, see proof.py."""
    for columns in steps:
        added = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        query = f"SELECT *, {added} FROM ({query})"
    return query


def _span(database, now, times="times"):
    """The time in which deliveries were received: {"since", "until"} in s since 1970, None without any. `outside`:
    those few that were received far from all others, by the clock of a collector, as {"count", "first", "last"}; None
    without any. times: the view with them."""
    # A minute belongs to a time with all of its deliveries.
    minutes = f"""FROM (SELECT epoch(min(since)) AS since, epoch(max(until)) AS until, sum(deliveries) AS many
        FROM {times} GROUP BY t) WHERE until >= {_OLDEST} AND since <= {int(now) + _DAY_S}"""
    sums = "CAST(coalesce(sum(many), 0) AS BIGINT), min(since), max(until)"
    many, since, until = database.run(f"SELECT {sums} {minutes}").fetchone()
    whole = {"since": since, "until": until, "outside": None}
    if many < _LEAST:
        return whole
    few = max(_FEW * many, 2.5)
    first, last = database.run(
        f"""SELECT min(since) FILTER (below >= {few!r}), max(until) FILTER (above >= {few!r}) FROM (
            SELECT since, until, sum(many) OVER (ORDER BY since) AS below, sum(many) OVER (ORDER BY since DESC) AS above
            {minutes})"""
    ).fetchone()
    if (last - first) * _APART >= until - since:
        return whole
    margin = max(last - first, OVERLAP_S)
    near = f"until >= {first - margin!r} AND since <= {last + margin!r}"
    _, since, until = database.run(f"SELECT {sums} {minutes} AND {near}").fetchone()
    outside = database.run(f"SELECT {sums} {minutes} AND NOT ({near})").fetchone()
    return {"since": since, "until": until, "outside": dict(zip(("count", "first", "last"), outside, strict=True))}


def _silent(now, span):
    """SQL of the seconds since a device's last message, if that is much longer than it usually takes: what the registry
    expects, what it told before it slept, or its mean interval. Else 0. span: see _span()."""
    began, ended = "epoch(since)", "epoch(seen)"
    if span["outside"]:
        began, ended = f"greatest({began}, {span['since']!r})", f"least({ended}, {span['until']!r})"
    mean = f"({ended} - {began}) / (numbered - 1)"
    usual = f"coalesce(interval_s, next_s, CASE WHEN numbered > 2 THEN {mean} END, {_DAY_S})"
    silence = f"({now!r} - {ended})"
    return f"CASE WHEN NOT retired AND {silence} > greatest({_SILENT_S}, 3 * {usual}) THEN {silence} ELSE 0 END"


def _heard(until):
    """SQL of all devices that were ever heard of before the time `until`, in s since 1970, None: now: since when, when
    last, how many numbers arrived, and the highest one of the last journal."""
    sums = """SELECT device, min(since) AS since, max(until) AS seen, CAST(sum(many) AS BIGINT) AS numbered,
        arg_max(hi, coalesce(until, to_timestamp(0))) AS last_number FROM"""
    ledger = f"""SELECT device, epoch, min(first_received) AS since, max(last_received) AS until,
        sum({_MANY} + coalesce(repeated, 0)) AS many, max(list_max(list_transform(ranges, lambda r: r.hi))) AS hi
        FROM (SELECT device, epoch, first_received, last_received, ranges, repeated FROM ledger
            UNION ALL SELECT device, epoch, since, until, [], 0 FROM every_days WHERE delivered > 0)
        GROUP BY device, epoch"""
    if until is None:
        return f"{sums} ({ledger}) GROUP BY device"
    # The ledger tells nothing of a time before the last message of a journal.
    end = moment(until)
    old = f"SELECT * FROM ({ledger}) WHERE until < {end}"
    days = f"""SELECT * FROM every_days ANTI JOIN ({old}) USING (device, epoch)
        WHERE delivered > 0 AND since < {end}"""
    return f"""{sums} ({old}
        UNION ALL SELECT device, epoch, since, until, delivered + repeated, hi FROM ({days}) WHERE until < {end}
        UNION ALL SELECT device, epoch, min(received), max(received), count(*), max(seq) FROM every_raw
            JOIN listed USING (filename) SEMI JOIN (FROM ({days}) WHERE until >= {end}) AS cut
            ON (cut.file, cut.device, cut.epoch, cut.day) = (listed.file, every_raw.device, every_raw.epoch,
                CAST(received AS DATE))
            WHERE first AND received < {end} GROUP BY device, epoch)
        GROUP BY device"""


def _ends(database, summaries, proof):
    """Of first deliveries (device, epoch, seq, received, oldest) as many as Proof.told() needs: the first and the last
    one of a file, day and journal, with the highest `oldest` of all of these; all of a file that has some of a journal
    and day both before and after a moment of the proof."""
    astride = " OR ".join(f"since <= {one} AND until > {one}" for one in map(moment, (proof.drained, proof.until)))
    files = list(database.values(f"SELECT DISTINCT file FROM every_days WHERE {astride}"))
    ends = "unnest([{'seq': lo, 'received': since}, {'seq': hi, 'received': until}])"
    return f"""
        SELECT device, epoch, oldest, one.seq, one.received FROM (
            SELECT device, epoch, oldest, {ends} AS one FROM every_days
            WHERE delivered > 0 AND NOT list_contains({files}, file))
        UNION ALL SELECT device, epoch, oldest, seq, received FROM every_raw
        WHERE first AND seq IS NOT NULL AND filename IN {summaries.names(files)}"""


def _turns(database, summaries):
    """SQL of health messages: all of those of a journal that two files have mixed, of others the `turns`."""
    database.run(
        f"""CREATE OR REPLACE TEMP TABLE mixed AS SELECT file, device, epoch FROM (
            SELECT *, max(hi) OVER ({_ORDER} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before,
                min(lo) OVER ({_ORDER} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS behind
            FROM (SELECT file, device, epoch, min(seq) AS lo, max(seq) AS hi FROM every_turns GROUP BY ALL))
        WHERE lo <= before OR behind <= hi"""
    )
    files = [file for (file,) in database.run("SELECT DISTINCT file FROM mixed").fetchall()]
    alone = "SELECT * EXCLUDE (file) FROM every_turns ANTI JOIN mixed USING (file, device, epoch)"
    if not files:
        return f"FROM ({alone})"
    columns = "COLUMNS(* EXCLUDE (file, filename, wifi, wake))"
    return f"""FROM ({alone} UNION ALL BY NAME SELECT {columns} FROM every_health JOIN listed USING (filename)
        SEMI JOIN mixed USING (file, device, epoch) WHERE filename IN {summaries.names(files)})"""


def _find_starts(database, since):
    """Makes the table `started`: of journals whose first numbers are missing the lowest ones that a collector could
    have received, `started` as markers prove it, `perhaps` by receipt. since: see Proof."""
    database.run("CREATE OR REPLACE TEMP TABLE started (device VARCHAR, epoch BIGINT, started BIGINT, perhaps BIGINT)")
    if since is None:
        return
    database.run(f"CREATE OR REPLACE TEMP TABLE starts AS {_STARTS.format(since + rules.SKEW_S)}")
    if database.row("SELECT count(*) AS many FROM starts")["many"]:  # seldom: it reads deliveries
        database.run(
            f"""INSERT INTO started SELECT device, epoch, started, perhaps
            FROM (SELECT device, epoch, min(boot) FILTER (by_receipt) AS perhaps FROM starts GROUP BY ALL)
            LEFT JOIN ({_STARTED.format(since + rules.SKEW_S)}) USING (device, epoch)"""
        )


def _missing(proof, ends):
    """The numbers that have not arrived, as ranges from `lo` to `hi`, with the `place` where they are:

    device  the device has told that the broker had not completed them, and it still has the journal
    erased  the same, but the device has another journal now
    way     the broker has acknowledged them, and a collector's session may still have them
    gone    the broker has acknowledged them, and no session has them: lost behind the broker, or given up by the
            device, which counts these
    before  the broker has acknowledged them, and nothing shows that a collector was subscribed then

    proved: false if that is a guess, because of their age, see Proof."""
    told = ", ".join(f"{sql} AS {name}" for name, sql in proof.told(moment).items())
    journals = _stepped(f"SELECT device, epoch, {told} FROM ({ends}) GROUP BY device, epoch", rules.JOURNAL_STEPS)
    joined = "LEFT JOIN live USING (device, epoch) LEFT JOIN started USING (device, epoch)"
    gaps = _stepped(f"SELECT * FROM gaps LEFT JOIN ({journals}) USING (device, epoch) {joined}", rules.GAP_STEPS)
    parts = ", ".join(
        f"{{'lo': {lo}, 'hi': {hi}, 'place': {place}, 'proved': {proof.proved and proved} AND tells}}"
        for lo, hi, place, proved in rules.GAP_PARTS
    )
    split = f"SELECT device, epoch, unnest([{parts}]) AS part FROM ({gaps})"
    proved = "coalesce(part.proved, false) AS proved"
    return f"SELECT device, epoch, part.lo, part.hi, part.place, {proved} FROM ({split}) WHERE part.lo <= part.hi"


# When collectors have sent markers, in s since 1970, and the latest time that an earlier marker of each has: earlier by
# the numbers that they have.
_MARKERS = """
SELECT *, max(sent) OVER (PARTITION BY "by" ORDER BY run, n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
FROM (SELECT "by", marker.sent / 1000 AS sent, marker.run AS run, marker.n AS n FROM (
    SELECT "by", TRY(from_json(decode(payload), '{"sent": "BIGINT", "run": "BIGINT", "n": "BIGINT"}')) AS marker
    FROM every_rare WHERE kind = 'collector'))
WHERE sent IS NOT NULL
"""


def collectors(database, now):
    """A dict for each collector: `by`, its name; `seen`, when its last message arrived; `first`, `marked`: when it sent
    the first and the last marker that came back to it, or None; in s since 1970. It was subscribed since the first one,
    and all that the broker had for it at the time of the last one is in the tables. queue_s: for how long that marker
    was behind the other messages that the broker had for the collector. doubt: why its markers prove nothing, so that
    both are None: 'ahead', they are of a time after `now`; 'back', a later one is of an earlier time, so its clock was
    set back, or another collector has its name."""
    database.summarize()
    skew = rules.SKEW_S
    return database.rows(
        f"""SELECT "by", seen, CASE WHEN doubt IS NULL THEN first END AS first,
            CASE WHEN doubt IS NULL THEN marked END AS marked, queue_s, doubt FROM (
            SELECT "by", epoch(max(until)) AS seen FROM every_times WHERE "by" IS NOT NULL GROUP BY "by")
        LEFT JOIN (
            SELECT "by", epoch(min(made)) AS first, epoch(max(made)) AS marked,
                arg_max(epoch(received) - epoch(made), (made, received)) AS queue_s
            FROM every_rare WHERE {_MARKS} GROUP BY "by") USING ("by")
        LEFT JOIN (
            SELECT "by", CASE WHEN max(sent) > {now + skew!r} THEN 'ahead'
                WHEN bool_or(run IS NOT NULL AND before > sent + {skew}) THEN 'back' END AS doubt
            FROM ({_MARKERS}) GROUP BY "by") USING ("by")
        ORDER BY marked, "by" """
    )


def judge(database, now, grace_s, retired=(), unread=False, since=None, until=None):
    """Adds the views to a Database, and returns what collectors() and _span() do. now: in s since 1970. grace_s: where
    nothing proves what became of a missing number, it is lost if a later one arrived so long ago. retired: collectors
    that never return. unread: whether landing files have not been read that should have been. since, until: see
    define()."""
    found = collectors(database, now)
    names = [one["by"] for one in found if one["first"]]
    database.run('CREATE OR REPLACE TEMP TABLE trusted AS SELECT unnest(CAST(? AS VARCHAR[])) AS "by"', names)
    proof = rules.Proof.of(found, retired, now - grace_s, unread)
    return [one for one in found if one["by"] not in retired], define(database, proof, now, since, until)


def define(database, proof, now, since=None, until=None):
    """Adds the views to a Database, and returns what _span() does. proof: a Proof. now: in s since 1970. since, until:
    only what was received at that time or later, and before that time, counts, in s since 1970; None: all. The place of
    a missing number is its present place."""
    summaries = database.summarize()
    database.only(None, since, until)
    span = _span(database, now)
    lived = _span(database, now, "every_times") if database.ranged else span
    before = "true" if until is None else f"received < {moment(until)}"
    source = "FROM every_health" if database.ranged else _turns(database, summaries)
    told = ", ".join(f"{_count(sql)} AS {name}" for name, sql in _TOLD.items())
    own = ", ".join(f"{_count(name)} AS {name}" for name in ("outbox_full", *_OF_JOURNAL))
    # A device gives up numbers that it has assigned: a claim of more is none.
    bound = ", ".join(
        f"CASE WHEN {name} <= seq + 1 THEN {name} END AS {name}" for name in ("dropped", "thinned", *_OF_JOURNAL)
    )

    def health(where, source=source):
        accepted = f"SELECT * REPLACE ({own}), {told} {source}"
        # What a client lost to damage is among what it dropped; the journal counts that.
        accepted = f"SELECT * REPLACE (dropped - coalesce(damaged, 0) AS dropped) FROM ({accepted})"
        accepted = f"SELECT * REPLACE ({bound}) FROM ({accepted})"
        return _stepped(f"SELECT * FROM ({accepted}) WHERE accepted IS NOT NULL AND {where}", rules.HEALTH_STEPS)

    def lives(where):
        return _SUMS.format(lives=_stepped(health(where), rules.ENDS_STEPS))

    earlier = "false" if since is None else f"received < {moment(since)}"
    given = "FROM told"
    if until is not None:
        given = lives(f"({before} OR (device, received) IN ({_NEXT_HEALTH.format(moment(until))}))")
    for name, sql in {
        "ranges": _RANGES,
        "conflicts": _CONFLICTS,
        "live": _LIVE,
        "gaps": _GAPS_OF_A_TIME if database.ranged else _GAPS,
        "missing": _missing(proof, _ends(database, summaries, proof)),
        "journals": _JOURNALS_OF_A_TIME if database.ranged else _JOURNALS,
        "shared": _SHARED,
        "clock_jumps": _CLOCK_JUMPS,
        "undated": _UNDATED,
        "expiries": _EXPIRIES,
        # Without a count of accepted messages they are left out. `health_messages` has each start and what is before.
        "health_messages": f"SELECT * FROM ({health(before)}) WHERE NOT {earlier}",
        "all_health": f"SELECT * FROM ({health(before, 'FROM every_health')}) WHERE NOT {earlier}",
        "lives": _LIVES.format(told=lives(before), earlier=lives(earlier), given=given),
        "numbers": _NUMBERS,
        "states": _STATES.format(before=before),
        "heard": _heard(until),
        "impossible": _IMPOSSIBLE,
        "devices": _DEVICES.format(silent=_silent(float(now if until is None else min(now, until)), lived)),
    }.items():
        database.run(f"CREATE OR REPLACE VIEW {name} AS {sql}")
        if name == "live":
            _find_starts(database, proof.since)
    return span
