"""The rules that tell where a missing number is, as SQL. Each *_STEPS is a list of columns to add, step by step."""

SKEW_S = 60  # between the clocks of collectors


class Proof:
    """What is known about messages that the broker has acknowledged. They are in the tables, or lost, if a device told
    of the acknowledgement before `drained`, in s since 1970. If not `proved`, that is a guess: a collector's markers
    never came back. `until`, in s since 1970: when a later number arrived before it, a missing number counts as lost,
    if its device tells nothing.

    marks: for each collector, when it sent the last marker that came back to it, in s since 1970, or None if there is
    none that proves anything. unread:
    whether landing files have not been read that should have been: then nothing is lost."""

    def __init__(self, marks, until, unread=False):
        self.proved = bool(marks) and None not in marks and not unread
        drained = min(marks) - (SKEW_S if len(marks) > 1 else 0) if self.proved else until
        self.drained, self.until = (0.0, 0.0) if unread else (float(drained), float(until))

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
# Of a gap from `lo` to `hi` in the numbers of such a journal: what is below `gone` is gone, what is not below `kept` is
# where the journal is. Without `later` and `earlier`, all deliveries of the journal are older than what `raw` keeps.
GAP_STEPS = (
    {
        "gone": "CASE WHEN oldest IS NOT NULL THEN coalesce(passed, 0) WHEN coalesce(later, earlier) IS NULL "
        "THEN hi + 1 ELSE least(later, coalesce(earlier, 0)) END",
        "kept": "coalesce(oldest, hi + 1)",
        "tells": "oldest IS NOT NULL",
    },
)
# lowest number, highest number, place: of the parts of a gap. A part whose highest number is below its lowest is empty.
GAP_PARTS = (
    ("lo", "least(hi, gone - 1)", "'gone'"),
    ("greatest(lo, gone)", "least(hi, kept - 1)", "'way'"),
    ("greatest(lo, kept)", "hi", "journal"),
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
# What a device gave up, by its counters, over all restarts. A journal counts its damage for good, and the application
# what was thinned; the client counts from its start on.
COUNTED = {
    "dropped": "sum(CASE WHEN ends THEN dropped END)",
    "thinned": "sum(CASE WHEN journal_ends THEN thinned END)",
    "damaged": "sum(CASE WHEN journal_ends THEN journal_damaged END)",
    "skipped": "sum(CASE WHEN journal_ends THEN journal_skipped END)",
}
GIVEN_UP = ("erased", *COUNTED)
