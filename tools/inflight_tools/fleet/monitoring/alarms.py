"""What somebody must be told of a fleet: figures, in one line, and which of them are an alarm."""

from inflight_tools.fleet.judgement import JUDGED, figures
from inflight_tools.fleet.report.collectors import behind
from inflight_tools.fleet.report.words import count

# Of a figure: words for one, and for several.
_WORDS = {
    "devices": ("device", None),
    **{name: one[1:] for name, one in JUDGED.items()},
    "dead_letters": ("dead letter", None),
    "nearly_full": ("journal nearly full", "journals nearly full"),
    "behind": ("collector behind", "collectors behind"),
    "stale": ("stale landing file", None),
    "repeated": ("repeated message", None),
}
_NEVER = "damaged", "impossible", "doubled"


class Check:
    """`figures`: {name: number} of the facts, as facts.totals() returns them. `alarms`: the names of those of them that
    are above what `most`, {name: number}, allows; what should never be always is."""

    def __init__(self, facts, most):
        known = facts["fleet"] | {"behind": len(behind(facts)), "stale": facts["unread"]["stale"]} | figures(facts)
        self.figures = {name: known[name] for name in _WORDS}
        self.alarms = [name for name, allowed in (most | dict.fromkeys(_NEVER, 0)).items() if known[name] > allowed]

    def line(self):
        told = {name: count(self.figures[name], *words) for name, words in _WORDS.items()}
        alarm = f"ALARM: {', '.join(told[name] for name in self.alarms)}; of " if self.alarms else "ok: "
        return alarm + ", ".join(words for name, words in told.items() if name not in self.alarms)
