"""What the figures mean, in a sentence that promises no more than they prove."""

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
        return _empty(fleet)
    if not fleet["accepted"]:
        return Verdict(WAITING, "Devices were heard of, but no message with a number has come yet.", _notes(facts))
    kind, sentence = _sentence(fleet)
    return Verdict(kind, sentence, _notes(facts))


def _empty(fleet):
    if fleet["dead_letters"]:
        came = count(fleet["dead_letters"], "message")
        return Verdict(BAD, f"No device is known: {came} came, and none could be used.")
    return Verdict(EMPTY, "No message has arrived yet.")


def _sentence(fleet):
    accepted, delivered, lost, late, doubled = (
        fleet[name] for name in ("accepted", "delivered", "lost", "late", "doubled")
    )
    sums = f"{count(accepted, 'message')} accepted, {number(delivered)} delivered"
    twice = f"{count(doubled, 'row')} {'stands' if doubled == 1 else 'stand'} twice"
    if accepted != delivered + lost + late:
        return BAD, f"The figures contradict each other: {sums}, {number(lost)} lost, {number(late)} on the way."
    if lost:
        were = "message was" if lost == 1 else "messages were"
        return BAD, f"{number(lost)} {were} lost: {sums}{', and ' + twice if doubled else ''}."
    if doubled:
        return BAD, f"Nothing was lost, but {twice}: {sums}."
    if late:
        return WAITING, f"Nothing is lost so far: {sums}, {number(late)} still on the way."
    return GOOD, f"Nothing was lost: {sums}, none stands twice."


def _notes(facts):
    """What the sentence alone would hide."""
    fleet = facts["fleet"]
    grace = duration(facts["grace_s"])
    renewed = sum((device["epochs"] or 0) > 1 for device in facts["devices"])
    least = "at least " if len(facts["devices"]) < fleet["devices"] else ""  # only the worst are told of one by one
    said = (
        (fleet["lost"], f"Lost: missing, though a younger message of the same device came more than {grace} ago."),
        (fleet["late"], f"{count(fleet['late'], 'message')} late: missing, but for less than {grace}."),
        (fleet["conflicts"], f"{count(fleet['conflicts'], 'message')} came under a number that another one has already:"
         " do two devices go by one name?"),
        (fleet["dead_letters"], f"{count(fleet['dead_letters'], 'message')} could not be used: see Dead letters."),
        (fleet["outbox_full"], f"{count(fleet['outbox_full'], 'message')} found a journal full. What a journal refused"
         " was never accepted, and counts nowhere else."),
        (fleet["before"], f"{count(fleet['before'], 'number')} below the first that came: from before the collector"
         " listened, so nobody can judge them."),
        (renewed, f"New journals on {least}{count(renewed, 'device')}: what an old one still held cannot be counted."),
    )  # fmt: skip
    return [sentence for happened, sentence in said if happened]
