"""The result in one sentence, which claims no more than the figures prove."""

from dataclasses import dataclass, field

from .words import PLACES, count, duration, number

GOOD, WAITING, BAD, EMPTY = "good", "waiting", "bad", "empty"
_UNREAD_S = 600  # a landing file that is older should be in the tables
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
        return Verdict(WAITING, "Devices are known, but no message with a number has arrived yet.", _notes(facts))
    kind, sentence = _sentence(fleet)
    return Verdict(kind, sentence, _notes(facts))


def _empty(fleet):
    if fleet["dead_letters"]:
        arrived = count(fleet["dead_letters"], "message")
        return Verdict(BAD, f"No device is known: {arrived} arrived, and none could be used.")
    return Verdict(EMPTY, "No message has arrived yet.")


def _sentence(fleet):
    accepted, delivered, lost, doubled = (fleet[name] for name in ("accepted", "delivered", "lost", "doubled"))
    places = [(fleet[name], words) for name, words in PLACES.items()]
    sums = f"{count(accepted, 'message')} accepted, {number(delivered)} delivered"
    twice = f"{count(doubled, 'row')} {'is' if doubled == 1 else 'are'} stored twice"
    if accepted != delivered + lost + sum(n for n, _ in places):
        told = ", ".join(f"{number(n)} {words}" for n, words in ((lost, "lost"), *places))
        return BAD, f"The figures contradict each other: {sums}, {told}."
    if lost:
        were = "message was" if lost == 1 else "messages were"
        return BAD, f"{number(lost)} {were} lost: {sums}{', and ' + twice if doubled else ''}."
    if doubled:
        return BAD, f"Nothing was lost, but {twice}: {sums}."
    if fleet["given_up"]:
        return BAD, f"{count(fleet['given_up'], 'message')} given up by devices: {sums}."
    if any(n for n, _ in places):
        told = ", ".join(f"{number(n)} {words}" for n, words in places if n)
        return WAITING, f"Nothing is lost so far: {sums}, {told}."
    return GOOD, f"Nothing was lost: {sums}, none stored twice."


def _behind(facts):
    """Which collector may hold messages that are on their way."""
    first = facts["collectors"][0] if facts["collectors"] else None
    if not first or first["marked"] is None or facts["made"] - first["marked"] < facts["grace_s"]:
        return ""
    return f" {first['by']} has not shown for {duration(facts['made'] - first['marked'])} that it has received all."


def _notes(facts):
    """What the reader must know besides the sentence."""
    fleet = facts["fleet"]
    grace = duration(facts["grace_s"])
    renewed = sum((device["epochs"] or 0) > 1 for device in facts["devices"])
    least = "at least " if len(facts["devices"]) < fleet["devices"] else ""  # the facts list only the worst devices
    unread = facts["unread"] or {"files": 0}
    waited = unread["files"] and facts["made"] - unread["oldest"]
    notes = (
        (waited > _UNREAD_S, f"{count(unread['files'], 'landing file')} not in the tables, the oldest for"
         f" {duration(waited)}: is `tables` running?"),
        (fleet["lost"], "Lost: the broker acknowledged the message, and the collectors have received all that the"
         " broker had for them."),
        (fleet["guessed"], f"{count(fleet['guessed'], 'number')} counted as lost or given up because of"
         f" their age: a later one arrived more than {grace} ago. The device, or a collector, proves nothing."),
        (fleet["given_up"], f"{count(fleet['given_up'], 'message')} accepted, and given up by the device, as its own"
         " counters tell: dropped by a full journal, damaged, or skipped."),
        (fleet["on_device"], f"{count(fleet['on_device'], 'message')} still in journals of devices."),
        (fleet["on_way"], f"{count(fleet['on_way'], 'message')} acknowledged by the broker, and on the way to the"
         f" tables.{_behind(facts)}"),
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
