"""The result in one sentence, which claims no more than the figures prove."""

from dataclasses import dataclass, field

from .words import count, duration, number

GOOD, WAITING, BAD, EMPTY = "good", "waiting", "bad", "empty"
LABELS = {GOOD: "Complete", WAITING: "Not yet complete", BAD: "Not complete", EMPTY: "Nothing to judge"}


@dataclass
class Verdict:
    kind: str
    sentence: str
    notes: list = field(default_factory=list)


def verdict(facts):
    fleet = facts["fleet"]
    if not fleet["devices"]:
        return Verdict(*_empty(fleet), _notes(facts))
    if not fleet["accepted"]:
        return Verdict(WAITING, "Devices are known, but no message with a number has arrived yet.", _notes(facts))
    return Verdict(*_sentence(fleet), _notes(facts))


def _empty(fleet):
    if fleet["dead_letters"]:
        arrived = count(fleet["dead_letters"], "message")
        return BAD, f"No device is known: {arrived} arrived, and none could be used."
    return EMPTY, "No message has arrived yet."


def _sentence(fleet):
    accepted, delivered, lost, late, doubled = (
        fleet[name] for name in ("accepted", "delivered", "lost", "late", "doubled")
    )
    sums = f"{count(accepted, 'message')} accepted, {number(delivered)} delivered"
    twice = f"{count(doubled, 'row')} {'is' if doubled == 1 else 'are'} stored twice"
    if accepted != delivered + lost + late:
        return BAD, f"The figures contradict each other: {sums}, {number(lost)} lost, {number(late)} late."
    if lost:
        were = "message was" if lost == 1 else "messages were"
        return BAD, f"{number(lost)} {were} lost: {sums}{', and ' + twice if doubled else ''}."
    if doubled:
        return BAD, f"Nothing was lost, but {twice}: {sums}."
    if late:
        return WAITING, f"Nothing is lost so far: {sums}, {number(late)} late."
    return GOOD, f"Nothing was lost: {sums}, none stored twice."


def _notes(facts):
    """What the reader must know besides the sentence."""
    fleet = facts["fleet"]
    grace = duration(facts["grace_s"])
    renewed = sum((device["epochs"] or 0) > 1 for device in facts["devices"])
    least = "at least " if len(facts["devices"]) < fleet["devices"] else ""  # the facts list only the worst devices
    unread = facts["unread"]
    notes = (
        (unread["stale"], f"{count(unread['stale'], 'landing file')} not in the tables, though not new, or dated in the"
         " future: is `tables` running?"),
        (fleet["lost"], f"Lost: missing, though a later message of the same device arrived more than {grace} ago."),
        (fleet["late"], f"{count(fleet['late'], 'message')} late: missing, but for less than {grace}."),
        (fleet["conflicts"], f"{count(fleet['conflicts'], 'message')} arrived with a number that another message has:"
         " do two devices have the same name?"),
        (fleet["dead_letters"], f"{count(fleet['dead_letters'], 'message')} could not be used: see Dead letters."),
        (fleet["outbox_full"], f"{count(fleet['outbox_full'], 'message')} refused by a full journal. They were never"
         " accepted, and are in no other count."),
        (fleet["before"], f"{count(fleet['before'], 'number')} below the first one that arrived: the collector"
         " was not subscribed yet, so their fate is unknown."),
        (renewed, f"New journals on {least}{count(renewed, 'device')}: messages left in an old one cannot be counted."),
    )  # fmt: skip
    return [sentence for applies, sentence in notes if applies]
