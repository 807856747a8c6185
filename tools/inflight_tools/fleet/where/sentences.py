"""The way of a message in words: rows of a step and what is known of it, and a last sentence."""

from inflight_tools.fleet.delta import REPAIR
from inflight_tools.fleet.report.words import clip, count, utc

_SENTENCES = {
    "delivered": "Delivered.",
    "damaged": f"Delivered, but the tables have lost rows, and none of it is there: {REPAIR}.",
    "landed": "Collected, and not in the tables yet: `inflight fleet tables` writes them.",
    "journal": "In the device's journal: the broker had not acknowledged it when the device last told.",
    "erased": "Given up: it was in a journal that the device has replaced.",
    "way": "On its way: the broker has acknowledged it, and a collector may still receive it.",
    "lost": "Lost behind the broker: acknowledged, each collector has received all since, and the device gave up none.",
    "given-up": "Given up by the device: its counters tell of as many numbers as are gone.",
    "lost-or-given-up": "Lost behind the broker, or given up by the device: its counters tell of fewer numbers "
    "than are gone, and not of which.",
    "before": "Unknown: nothing shows that a collector was subscribed when the broker acknowledged it.",
    "after": "Not known to be accepted: it is above the last number that arrived, and nothing tells what is there.",
}
_GUESSED = {
    "lost": "Probably lost, by age only: a later number arrived long ago, and nothing proves what became of this one.",
    "given-up": "Given up by the device, or lost: its counters tell of as many numbers as are gone, by age only.",
    "way": "On its way, or still in the device's journal: the device does not tell what the broker has acknowledged.",
}

_EXPIRES = (
    "messages of this device have one (at most {} s were left on arrival): the broker drops a message that no "
    "collector fetches in time, and nothing tells of it"
)


def sentence(found):
    place = found["place"]
    certain = found["proved"] or (place == "way" and found["acknowledged"] is not None)
    if found.get("conflicts"):
        return "Delivered; another message came with the same number, and has no place."
    return _SENTENCES[place] if certain else _GUESSED.get(place, _SENTENCES[place])


def _time(seconds):
    return utc(seconds, "%Y-%m-%d %H:%M:%S UTC")


def rows(found):
    """[(step, what is known), ...]"""
    yield "journal", f"epoch {found['epoch']}" + _others(found)
    yield "accepted", _accepted(found)
    yield "acknowledged", _acknowledged(found)
    for delivery in found["deliveries"]:
        yield "collected", _delivery(delivery)
        if delivery["properties"]:
            yield "properties", _properties(delivery["properties"])
    for path, at in found["landed"]:
        yield "collected", f"{_time(at)}, in {path}"
    yield "in tables", _tables(found)
    for delivery in found["deliveries"]:
        if delivery["problem"]:
            yield "dead letter", clip(delivery["problem"], 200)
    if "gone" in found:
        told = ", ".join(f"{n} {reason}" for reason, n in found["counted"].items() if n)
        yield "given up", f"of {count(found['gone'], 'number')} that are gone the device counts: {told or 'none'}"
        if found["expires"]:
            yield "expiry", _EXPIRES.format(found["expires"])


def _others(found):
    others = [epoch for epoch in found["epochs"] if epoch != found["epoch"]]
    return f"; the device had others: {', '.join(map(str, others))} (--epoch)" if others else ""


def _accepted(found):
    first, following = found["accepted"]["first"], found["accepted"]["next"]
    if found["number"] >= following:
        return f"not known: numbers from {first} to {following - 1} have arrived"
    return f"yes: the device has assigned all numbers below {following}"


def _acknowledged(found):
    if found["acknowledged"] is not None:
        return f"yes: the device had told so by {_time(found['acknowledged'])}"
    if found["deliveries"]:
        return "the broker had it; the device has not told of an acknowledgement"
    if found["told"] is None:
        return "not known: the device does not tell"
    return f"no: the device last told at {_time(found['told'])}, oldest number {found['accepted']['oldest']}"


def _delivery(delivery):
    known = [_time(delivery["received"]), f"by {delivery['by']}", f"QoS {delivery['qos']}", delivery["topic"]]
    known += ["DUP"] * bool(delivery["dup"]) + ["repetition"] * (not delivery["first"])
    known += [f"made {_time(delivery['made'])}"] * (delivery["made"] is not None)
    return ", ".join([*known, f"in {delivery['file']}" if delivery["file"] else "landing file not found"])


def _properties(given):
    known = {
        "expiry": "expires {} s after receipt",
        "content_type": "content type {}",
        "payload_format": "payload format {}",
        "response_topic": "response to {}",
        "correlation": "correlation data {} (base64)",
    }
    told = [words.format(clip(str(given[name]), 200)) for name, words in known.items() if name in given]
    return clip(", ".join(told + [f"{one['name']}={one['value']}" for one in given.get("user_properties", ())]), 500)


def _tables(found):
    present = [f"{name} {rows}" for name, rows in found["tables"].items() if rows]
    if not present:
        return "its rows were deleted by age, the ledger has its number" if found["place"] == "delivered" else "no"
    since = f", in a file of {_time(found['written'])}" if found["written"] else ""
    return f"rows: {', '.join(present)}{since}"
