"""Views: the delivery and health of each device, where missing numbers are, and aggregates of measurements."""

from inflight_tools.fleet import proof as rules

_OVERLAP_S = 60  # if messages of two journals alternate for longer, there are two devices
_SILENT_S = 600  # shorter silence is no alarm
_DAY_S = 86_400
NO_WAKE = "reset IS DISTINCT FROM 'deep-sleep'"  # a wake from deep sleep is not a restart

# The numbers that have arrived. Ranges of several batches may be adjacent; they do not overlap.
_RANGES = """
SELECT device, epoch, r.lo, r.hi FROM (SELECT device, epoch, unnest(ranges) AS r FROM ledger)
"""
_GAPS = """
SELECT device, epoch, before + 1 AS lo, lo - 1 AS hi
FROM (SELECT *, lag(hi) OVER (PARTITION BY device, epoch ORDER BY lo) AS before FROM ranges) WHERE before + 1 < lo
"""
# before: numbers below the first one that arrived; the collector may not have been subscribed then.
_JOURNALS = """
SELECT * FROM
    (SELECT device, epoch, min(lo) AS before, sum(hi - lo + 1) AS delivered FROM ranges GROUP BY ALL)
    JOIN (SELECT device, epoch, sum(repeated) AS repeated, sum(measurements) AS measurements,
        sum(odd_clock) AS odd_clock, min(first_received) AS first_received, max(last_received) AS last_received
        FROM ledger GROUP BY ALL) USING (device, epoch)
"""
# accepted = delivered + on_device + erased + on_way + gone. guessed: how many of `gone` are a guess.
_NUMBERS = """
WITH away AS (
    SELECT device, epoch,
        sum(CASE WHEN place = 'device' THEN hi - lo + 1 ELSE 0 END) AS on_device,
        sum(CASE WHEN place = 'erased' THEN hi - lo + 1 ELSE 0 END) AS erased,
        sum(CASE WHEN place = 'way' THEN hi - lo + 1 ELSE 0 END) AS on_way,
        sum(CASE WHEN place = 'gone' THEN hi - lo + 1 ELSE 0 END) AS gone,
        sum(CASE WHEN place = 'gone' AND NOT proved THEN hi - lo + 1 ELSE 0 END) AS guessed
    FROM missing GROUP BY ALL)
SELECT journals.*, coalesce(on_device, 0) AS on_device, coalesce(erased, 0) AS erased, coalesce(on_way, 0) AS on_way,
    coalesce(gone, 0) AS gone, coalesce(guessed, 0) AS guessed,
    delivered + coalesce(away.on_device + away.erased + away.on_way + away.gone, 0) AS accepted
FROM journals LEFT JOIN away USING (device, epoch)
"""
_SHARED = f"""
SELECT DISTINCT a.device FROM journals a JOIN journals b ON a.device = b.device AND a.epoch <> b.epoch
WHERE b.first_received >= a.first_received AND a.last_received > b.first_received + INTERVAL {_OVERLAP_S} SECONDS
"""
# How many numbers arrived with different contents.
_CONFLICTS = """
WITH again AS (SELECT DISTINCT device, epoch, seq FROM raw WHERE NOT first AND seq IS NOT NULL)
SELECT device, count(*) AS conflicts FROM (
    SELECT device, epoch, seq FROM raw SEMI JOIN again USING (device, epoch, seq)
    GROUP BY ALL HAVING count(DISTINCT digest) > 1)
GROUP BY device
"""
# How often the clock went back by more than a minute between two messages.
_CLOCK_JUMPS = """
SELECT device, count(*) AS jumps FROM (
    SELECT device, made, lag(made) OVER (PARTITION BY device, epoch ORDER BY seq) AS before
    FROM raw WHERE first AND seq IS NOT NULL AND made IS NOT NULL)
WHERE made < before - INTERVAL 60 SECONDS GROUP BY device
"""
# The last health message of each device, and the sums of its counters over all restarts.
_LIVES = f"""
SELECT device, count(*) FILTER (start AND was IS NOT NULL AND {NO_WAKE}) AS restarts,
    sum(CASE WHEN ends THEN counters['resent'] END) AS resends,
    sum(CASE WHEN ends THEN counters['outages'] END) AS outages,
    {", ".join(f"{sql} AS {name}" for name, sql in rules.COUNTED.items())},
    sum(CASE WHEN ends AND {NO_WAKE} THEN outbox_full END) AS refused,
    list(reset) FILTER (start AND reset IS NOT NULL) AS resets,
    arg_max({{'heap': heap, 'rssi': rssi, 'firmware': firmware, 'errors': errors, 'journal_live': journal_live,
        'journal_used': journal_used, 'journal_limit': journal_limit, 'journal_erases': journal_erases,
        'journal_damaged': journal_damaged, 'journal_where': journal_where}}, (epoch_began, seq)) AS last
FROM lives GROUP BY device
"""
# The last state that each device, or the broker with its will, has published; state_since: when it began; next_s: so
# many seconds after that message a device that sleeps reports again.
_STATES = """
SELECT device, arg_max({'state': state, 'next_s': next_s}, (received, coalesce(seq, -1))) AS last_status,
    max(CASE WHEN begins THEN received END) AS state_since
FROM (
    SELECT *, state IS DISTINCT FROM lag(state) OVER (PARTITION BY device ORDER BY received, seq) AS begins
    FROM raw WHERE kind = 'status' AND first AND state IS NOT NULL AND NOT retain)
GROUP BY device
"""
_PLACES = ("accepted", "delivered", "on_device", "erased", "on_way", "gone", "guessed", "before")
_OF_JOURNALS = (*_PLACES, "repeated", "measurements", "odd_clock")
_OF_DEVICES = ("dead_letters", "conflicts", "jumps", "restarts", "resends", "outages", "refused", *rules.COUNTED)
COUNTS = (*_OF_JOURNALS, "epochs", *_OF_DEVICES, "given_up", "lost")
_CHANGED = f"least(gone, {' + '.join(rules.COUNTED)})"
# One row for each device. accepted = delivered + on_device + on_way + given_up + lost. given_up: `erased`, and of the
# numbers that are gone as many as the device counts as dropped, damaged or skipped. lost: the others.
_DEVICES = f"""
WITH counted AS (
    SELECT device, {", ".join(f"sum({name}) AS {name}" for name in _OF_JOURNALS)}, count(*) AS epochs,
        min(first_received) AS since, max(last_received) AS seen
    FROM numbers GROUP BY device),
dead AS (SELECT device, count(*) AS dead_letters FROM dead_letters WHERE device IS NOT NULL GROUP BY device),
joined AS (
    SELECT device, {", ".join(f"CAST(coalesce({name}, 0) AS BIGINT) AS {name}" for name in COUNTS[:-2])},
        since, seen, resets, last, coalesce(last_status.state, 'unknown') AS state,
        last_status.next_s AS next_s, state_since, shared.device IS NOT NULL AS shared
    FROM counted FULL JOIN dead USING (device) LEFT JOIN health_sums USING (device) LEFT JOIN states USING (device)
        LEFT JOIN conflicts USING (device) LEFT JOIN clock_jumps USING (device) LEFT JOIN shared USING (device))
SELECT *, {{silent}} AS silent, erased + {_CHANGED} AS given_up, gone - {_CHANGED} AS lost FROM joined
"""


def _moment(seconds):
    return f"to_timestamp({seconds!r})"


def _stepped(query, steps):
    """The SQL `query` with the columns of `steps`, see proof.py."""
    for columns in steps:
        added = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        query = f"SELECT *, {added} FROM ({query})"
    return query


def _silent(now):
    """SQL of the seconds since a device's last message, if that is much longer than it usually takes: what it told
    before it slept, or its mean interval. Else 0."""
    mean = "(epoch(seen) - epoch(since)) / (delivered + repeated - 1)"
    usual = f"coalesce(next_s, CASE WHEN delivered > 2 THEN {mean} END, {_DAY_S})"
    silence = f"({now!r} - epoch(seen))"
    return f"CASE WHEN {silence} > greatest({_SILENT_S}, 3 * {usual}) THEN {silence} ELSE 0 END"


def _missing(proof):
    """The numbers that have not arrived, as ranges from `lo` to `hi`, with the `place` where they are:

    device  the device has told that the broker had not completed them, and it still has the journal
    erased  the same, but the device has another journal now
    way     the broker has acknowledged them, and a collector's session may still have them
    gone    the broker has acknowledged them, and no session has them: lost behind the broker, or given up by the
            device, which counts these

    proved: false if that is a guess, because of their age, see Proof."""
    told = ", ".join(f"{sql} AS {name}" for name, sql in proof.told(_moment).items())
    journals = f"SELECT device, epoch, {told} FROM raw WHERE first AND seq IS NOT NULL GROUP BY device, epoch"
    journals = _stepped(journals, rules.JOURNAL_STEPS)
    gaps = _stepped(f"SELECT * FROM gaps LEFT JOIN ({journals}) USING (device, epoch)", rules.GAP_STEPS)
    proved = f"coalesce({proof.proved} AND tells, false)"
    parts = ", ".join(f"{{'lo': {lo}, 'hi': {hi}, 'place': {place}}}" for lo, hi, place in rules.GAP_PARTS)
    split = f"SELECT device, epoch, unnest([{parts}]) AS part, {proved} AS proved FROM ({gaps})"
    return f"SELECT device, epoch, part.lo, part.hi, part.place, proved FROM ({split}) WHERE part.lo <= part.hi"


def collectors(database, retired=()):
    """A dict for each collector, but those in `retired`: `by`, its name; `seen`, when its last message arrived;
    `marked`, when it sent the last marker that came back to it, or None; both in s since 1970. All that the broker had
    for it at that time is in the tables."""
    return database.rows(
        """SELECT "by", epoch(max(received)) AS seen, epoch(max(CASE WHEN kind = 'collector' THEN made END)) AS marked
        FROM raw WHERE "by" IS NOT NULL AND NOT list_contains(?, "by") GROUP BY "by" ORDER BY marked, "by" """,
        list(retired),
    )


def judge(database, now, grace_s, retired=(), unread=False):
    """Adds the views to a Database, and returns what collectors() does. now: in s since 1970. grace_s: where nothing
    proves what became of a missing number, it is lost if a later one arrived so long ago. retired: collectors that
    never return. unread: whether landing files have not been read that should have been."""
    found = collectors(database, retired)
    define(database, rules.Proof([one["marked"] for one in found], now - grace_s, unread), now)
    return found


def define(database, proof, now):
    """Adds the views to a Database. proof: a Proof. now: in s since 1970."""
    accepted = "SELECT *, counters['accepted'] AS accepted, counters['dropped'] AS dropped FROM health"
    messages = _stepped(f"SELECT * FROM ({accepted}) WHERE accepted IS NOT NULL", rules.HEALTH_STEPS)
    for name, sql in {
        "ranges": _RANGES,
        "gaps": _GAPS,
        "missing": _missing(proof),
        "journals": _JOURNALS,
        "numbers": _NUMBERS,
        "shared": _SHARED,
        "conflicts": _CONFLICTS,
        "clock_jumps": _CLOCK_JUMPS,
        "health_messages": messages,  # without a count of accepted messages they are left out
        "lives": _stepped("SELECT * FROM health_messages", rules.ENDS_STEPS),
        "health_sums": _LIVES,
        "states": _STATES,
        "devices": _DEVICES.format(silent=_silent(float(now))),
    }.items():
        database.run(f"CREATE OR REPLACE VIEW {name} AS {sql}")
