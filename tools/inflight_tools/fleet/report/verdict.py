"""The result in one sentence, which claims no more than the figures prove."""

from dataclasses import dataclass, field

from inflight_tools.fleet.delta import REPAIR, lacking
from inflight_tools.fleet.judgement import BAD, GOOD, JUDGED, WAITING, figures

from .collectors import behind
from .words import PLACES, clip, count, duration, number, utc

EMPTY = "empty"
LABELS = {GOOD: "Complete", WAITING: "Not yet complete", BAD: "Not complete", EMPTY: "Nothing to judge"}


@dataclass
class Verdict:
    kind: str
    sentence: str
    notes: list = field(default_factory=list)


def verdict(facts):
    fleet = facts["fleet"]
    if facts["differences"]:
        return Verdict(BAD, f"The tables are damaged: {lacking(facts['differences'])}.", _notes(facts))
    found = figures(facts)
    if not (fleet["accepted"] or found["impossible"]):
        return Verdict(*(*_empty(fleet, facts["asked"], found), _notes(facts)))
    return Verdict(*(*_sentence(fleet, found), _notes(facts)))


def _empty(fleet, asked, found):
    if asked != [None, None] and not fleet["dead_letters"]:
        told = _told(found, WAITING)
        return WAITING if told else EMPTY, f"No message arrived in this time{': ' if told else ''}{told}."
    if fleet["devices"]:
        return WAITING, "Devices are known, but no message with a number has arrived yet."
    if fleet["dead_letters"]:
        arrived = count(fleet["dead_letters"], "message")
        return BAD, f"No device is known: {arrived} arrived, and none could be used."
    return EMPTY, "No message has arrived yet."


def _told(found, *kinds):
    """Those figures that are not 0 in words, of these kinds."""
    rows = ((n, JUDGED[name]) for name, n in found.items() if n)
    return ", ".join(count(n, one.one, one.several) for n, one in rows if one.kind in kinds)


def _sentence(fleet, found):
    accepted, delivered, lost = (fleet[name] for name in ("accepted", "delivered", "lost"))
    places = [(fleet[name], words) for name, words in PLACES.items()]
    sums = f"{count(accepted, 'message')} accepted, {number(delivered)} delivered"
    if accepted != delivered + lost + sum(n for n, _ in places):
        told = ", ".join(f"{number(n)} {words}" for n, words in ((lost, "lost"), *places))
        return BAD, f"The figures contradict each other: {sums}, {told}."
    bad, more = _told(found | {"lost": 0}, BAD), _told(found | {"lost": 0}, BAD, WAITING)
    if lost:
        were = "message was" if lost == 1 else "messages were"
        certain = "probably lost" if fleet["guessed"] else "lost"
        return BAD, f"{number(lost)} {were} {certain}: {sums}{', ' + more if more else ''}."
    if bad:
        waiting = _told(found, WAITING)
        return BAD, f"Nothing was lost, but {bad}: {sums}{', ' + waiting if waiting else ''}."
    if not more:
        return GOOD, f"Nothing was lost: {sums}, none stored twice."
    return WAITING, f"Nothing is lost so far: {sums}, {more}."


_DOUBTS = {
    "ahead": "its markers are of a time that has not come: is its clock right?",
    "back": "its markers go back in time: does another collector have this name, or was its clock set back? Give each"
    " collector a name of its own, and name this one with --retired.",
}


def _behind(facts):
    """Which collector has not proved for a while that it has received all."""
    late = [one for one in behind(facts) if one["marked"]]
    if not late:
        return ""
    ago = duration(facts["made"] - late[0]["marked"])
    return f" The collector {clip(late[0]['by'], 64)} has not shown for {ago} that it has received all: is it running?"


def _notes(facts):
    """What the reader must know besides the sentence."""
    fleet, unread = facts["fleet"], facts["unread"]
    grace = duration(facts["grace_s"])
    outside = facts["outside"] or {}
    odd = [one for one in facts["collectors"] if one["doubt"]]  # their markers come back, and prove nothing
    doubt = " ".join(f"The collector {clip(one['by'], 64)} proves nothing: {_DOUBTS[one['doubt']]}" for one in odd[:4])
    notes = (
        (facts["differences"], f"Do not trust these figures: {REPAIR}."),
        (doubt, doubt),
        (outside, f"{count(outside.get('count'), 'delivery', 'deliveries')} far from all others in time, between"
         f" {utc(outside.get('first'))} and {utc(outside.get('last'))} UTC: was the clock of a collector wrong? The"
         " timeline leaves this out."),
        (unread["stale"], f"{count(unread['stale'], 'landing file')} not in the tables, though not new, or dated in the"
         " future: is `tables` running?"),
        (fleet["silent"], f"{count(fleet['silent'], 'device')} silent for much longer than usual: see Devices."),
        (fleet["lost"] and not fleet["guessed"], "Lost: the device told that the broker had acknowledged the message,"
         " and since then the collectors have received all that the broker had for them."),
        (fleet["guessed"], f"{count(fleet['guessed'], 'number')} lost or given up by age only: a later one arrived more"
         f" than {grace} ago, and nothing proves what became of them."),
        (fleet["given_up"], f"{count(fleet['given_up'], 'message')} given up by devices, as their counters tell:"
         " dropped, thinned, damaged, skipped, or in a journal that was replaced."),
        (fleet["on_way"], f"{count(fleet['on_way'], 'message')} acknowledged by the broker, and on the way to the"
         f" tables.{_behind(facts)}"),
        (fleet["on_device"], f"{count(fleet['on_device'], 'message')} in journals of devices, when these last told."),
        (fleet["conflicts"], f"{count(fleet['conflicts'], 'message')} arrived with a number that another message has,"
         " and have no place: is one image on two boards, or do two devices have the same name?"),
        (fleet["impossible"], f"{count(fleet['impossible'], 'device')} told apart, and in no sum: between two numbers"
         " are more than a device can have assigned. Has somebody forged one?"),
        (fleet["tails"], f"{count(fleet['tails'], 'device')} vanished, or silent, or with a new journal: messages"
         " behind the last one that arrived are unknown."),
        (fleet["dead_letters"], f"{count(fleet['dead_letters'], 'message')} could not be used: see Dead letters."),
        (fleet["outbox_full"], f"{count(fleet['outbox_full'], 'message')} refused by a full journal. They were never"
         " accepted, and are in no other count."),
        (fleet["before"], f"{count(fleet['before'], 'number')} unknown: nothing shows that a collector was subscribed"
         " when the broker acknowledged them. Start the collector before the fleet."),
    )  # fmt: skip
    return [sentence for applies, sentence in notes if applies]
