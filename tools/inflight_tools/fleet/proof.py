"""The rules that tell where a missing number is, as SQL. Each *_STEPS is a list of columns to add, step by step."""

from typing import NamedTuple

SKEW_S = 60  # between the clocks of collectors
SLOW = 1.1  # a device's uptime may be a tenth too short: sleeping chips count by a resistor and a capacitor


class Rule(NamedTuple):
    """From which number of a journal on a collector could have received what the broker acknowledged."""

    fact: str
    lowest: str | None  # SQL of that number, of the columns of Proof.told(); None: it tells nothing
    proved: bool
    reason: str


# A number below all of these is unknown: a collector may not have been subscribed when the broker acknowledged it.
# started: the first number of a start that was behind the first marker. Before a health message was made, its `oldest`
# tells, a number was completed, and the broker had routed that behind some marker: less `up` that is when it started.
RECEIVABLE = (
    Rule("a delivery with RETAIN", None, False, "the broker keeps it for later subscribers: it may be older than each"),
    Rule("one without RETAIN", "live", True, "it comes to who was subscribed, and a device sends in order of numbers"),
    Rule("`up` and `accepted`", "started", True, "the start, and all of its numbers, are behind the first marker"),
    Rule("the same, by receipt", "perhaps", False, "each health message of that start may have waited in the journal"),
)


class Standing(NamedTuple):
    """What a collector proves: whether it tells since when messages count, whether its last marker is waited for."""

    since: bool
    waited: bool
    reason: str


# The fleet's messages count since the first marker of any collector, and have all come up to the earliest of the last
# markers: each collector may have what the others have not. One that starts at any time, beside others or under a new
# name, changes neither for what the others had. If the broker drops a session, what devices have published until the
# next SUBSCRIBE is lost: it was acknowledged, and nobody had it.
COLLECTORS = {
    "marked": Standing(True, True, "its markers come back, and a session keeps the order of all of its subscriptions"),
    "retired": Standing(True, False, "it was subscribed once, and never comes back for what it has left"),
    "doubted": Standing(False, True, "its markers are of no time that is known, or none came back: nothing is proved"),
}


class Proof:
    """What is known about messages that the broker has acknowledged. They are in the tables, or lost, if a device told
    of the acknowledgement before `drained`, in s since 1970. If not `proved`, that is a guess: a collector's markers
    never came back. `until`, in s since 1970: when a later number arrived before it, a missing number counts as lost,
    if its device tells nothing.

    marks: for each collector, when it sent the last marker that came back to it, in s since 1970, or None if there is
    none that proves anything. since: when a collector sent the first marker of all that came back, None: none did.
    unread: whether landing files have not been read that should have been: then nothing is lost. COLLECTORS has the
    rules."""

    def __init__(self, marks, until, unread=False, since=None):
        self.since = since
        self.proved = bool(marks) and None not in marks and not unread
        drained = min(marks) - (SKEW_S if len(marks) > 1 else 0) if self.proved else until
        self.drained, self.until = (0.0, 0.0) if unread else (float(drained), float(until))

    @classmethod
    def of(cls, collectors, retired, until, unread):
        """collectors: what views.collectors() returns. retired: names of collectors."""
        judged = []
        for one in collectors:
            standing = "retired" if one["by"] in retired else "marked" if one["marked"] else "doubted"
            judged.append((one, COLLECTORS[standing]))
        first = [one["first"] for one, rule in judged if rule.since and one["first"]]
        return cls([one["marked"] for one, rule in judged if rule.waited], until, unread, min(first, default=None))

    def told(self, moment):
        """What the first deliveries tell of a journal: {column: aggregate of `oldest`, `received` and `seq`}. moment: a
        function from s since 1970 to SQL that can be compared with `received`."""
        drained, until = moment(self.drained), moment(self.until)
        return {
            "oldest": "max(oldest)",
            "passed": f"max(CASE WHEN received <= {drained} THEN oldest END)",
            # By age: below each number that arrived later, and below one that arrived earlier.
            "later": f"min(CASE WHEN received > {until} THEN seq END)",
            "earlier": f"max(CASE WHEN received <= {until} THEN seq END)",
            "ended": "max(received)",
            "began": f"CASE WHEN min(received) <= {drained} THEN min(received) END",
        }


# Of a journal, after Proof.told(). `journal`: the place of what the broker has not acknowledged.
JOURNAL_STEPS = (
    {"journal": "CASE WHEN ended < max(began) OVER (PARTITION BY device) THEN 'erased' ELSE 'device' END"},
)


def _least(*proved):
    """SQL of the lowest number that RECEIVABLE gives."""
    return f"least({', '.join(rule.lowest for rule in RECEIVABLE if rule.lowest and rule.proved in proved)})"


# Of a gap from `lo` to `hi` in the numbers of such a journal: what is below `gone` is gone, what is not below `kept` is
# where the journal is. Without `later` and `earlier`, all deliveries of the journal are older than what `raw` keeps.
GAP_STEPS = (
    {
        "sure": f"coalesce({_least(True)}, hi + 1)",
        "likely": f"coalesce({_least(True, False)}, hi + 1)",
        "gone": "CASE WHEN oldest IS NOT NULL THEN coalesce(passed, 0) WHEN coalesce(later, earlier) IS NULL "
        "THEN hi + 1 ELSE least(later, coalesce(earlier, 0)) END",
        "kept": "coalesce(oldest, hi + 1)",
        "tells": "oldest IS NOT NULL",
    },
)
# lowest number, highest number, place, whether it may be proved: of the parts of a gap. A part whose highest number is
# below its lowest is empty.
GAP_PARTS = (
    ("lo", "least(hi, likely - 1, kept - 1)", "'before'", False),
    ("greatest(lo, likely)", "least(hi, gone - 1, sure - 1)", "'gone'", False),
    ("greatest(lo, sure)", "least(hi, gone - 1)", "'gone'", True),
    ("greatest(lo, gone, likely)", "least(hi, kept - 1)", "'way'", True),
    ("greatest(lo, kept)", "hi", "journal", True),
)

_ORDER = "(PARTITION BY device ORDER BY epoch_began, seq)"
# Of health messages with a count of `accepted` messages. Without a restart that count rises, since each health message
# is one. `start`: the first one after a start or a wake.
HEALTH_STEPS = (
    {"epoch_began": "min(received) OVER (PARTITION BY device, epoch)"},
    {
        "was": f"lag(accepted) OVER {_ORDER}",
        "up_before": f"lag(up) OVER {_ORDER}",
        "epoch_before": f"lag(epoch) OVER {_ORDER}",
    },
    {"start": "was IS NULL OR accepted <= was OR coalesce(up < up_before, false) OR epoch <> epoch_before"},
)
# `ends`: the last health message before a start, and the newest one; `journal_ends`: of a journal.
ENDS_STEPS = (
    {
        "ends": f"coalesce(lead(start) OVER {_ORDER}, true)",
        "journal_ends": f"coalesce(lead(epoch) OVER {_ORDER} <> epoch, true)",
    },
)
# A device with such a gap is told apart: nobody numbers so fast. many: its numbers; made_s: between the readings beside
# it, by the device's clock; pace_s: the journal's mean time for a number.
HUGE = 1 << 20  # a smaller gap is always believed
IMPOSSIBLE = "many > 100 * (made_s + 3600) OR many * greatest(pace_s, 0.1) > 10 * 365 * 86400.0"
# What a device gave up, by its counters, over all restarts. A journal counts its damage for good, and the application
# what was thinned; the client counts from its start on.
COUNTED = {
    "dropped": "sum(CASE WHEN ends THEN dropped END)",
    "thinned": "sum(CASE WHEN journal_ends THEN thinned END)",
    "damaged": "sum(CASE WHEN journal_ends THEN journal_damaged END)",
    "skipped": "sum(CASE WHEN journal_ends THEN journal_skipped END)",
}
GIVEN_UP = ("erased", *COUNTED)
