"""What is judged of a fleet: one list, for page, terminal, `check`, metrics, console and JSON."""

from typing import NamedTuple

GOOD, WAITING, BAD = "good", "waiting", "bad"


class Judged(NamedTuple):
    """kind: what a figure above 0 makes of the fleet. one, several: words of the figure."""

    kind: str
    one: str
    several: str | None = None


JUDGED = {
    "damaged": Judged(BAD, "damaged table"),
    "impossible": Judged(BAD, "device with impossible numbers", "devices with impossible numbers"),
    "lost": Judged(BAD, "lost message"),
    "given_up": Judged(BAD, "message given up", "messages given up"),
    "conflicts": Judged(BAD, "message without a place", "messages without a place"),
    "doubled": Judged(BAD, "row stored twice", "rows stored twice"),
    "silent": Judged(WAITING, "silent", "silent"),
    "tails": Judged(WAITING, "device whose end is unknown", "devices whose end is unknown"),
    "before": Judged(WAITING, "unknown number"),
    "on_way": Judged(WAITING, "on the way", "on the way"),
    "on_device": Judged(WAITING, "in a journal", "in a journal"),
}


def figures(facts):
    """{name of JUDGED: number}, of what facts.gather(), totals() and of_device() return."""
    known = facts["fleet"] | {"damaged": len(facts["differences"])}
    return {name: known[name] for name in JUDGED}


def kind(facts):
    """GOOD only if there are messages, and all figures are 0."""
    kinds = {JUDGED[name].kind for name, n in figures(facts).items() if n}
    return BAD if BAD in kinds else WAITING if kinds or not facts["fleet"]["accepted"] else GOOD
