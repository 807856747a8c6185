"""A device's health and history."""

from urllib.parse import quote

from .words import PLACES, clip, count, duration, moment, number

MOST = 500  # devices on the page
_MOST_FLAGS = 12


def missing(device):
    """How many numbers are missing, except lost ones."""
    return sum(device[key] for key in PLACES)


def health(device):
    """[(symbol, text), ...]: the device's problems, the worst first."""
    found = []
    if device["silent"]:
        found.append(("bad", f"silent for {duration(device['silent'])}"))
    if device["lost"]:
        found.append(("bad", f"{number(device['lost'])} lost"))
    for key, words in PLACES.items():
        if device[key]:
            found.append(("bad" if key == "given_up" else "waiting", f"{number(device[key])} {words}"))
    if device["conflicts"]:
        found.append(("bad", f"{number(device['conflicts'])} without a place"))
    if device["tail"]:
        found.append(("waiting", "end unknown"))
    if device["dead_letters"]:
        found.append(("warn", count(device["dead_letters"], "dead letter")))
    journal = device["journal"] or {}
    if device["nearly_full"]:
        found.append(("warn", f"journal {100 * journal['used'] / journal['limit']:.0f} % in use"))
    found += [("warn", clip(flag, 60)) for flag in device["flags"][:_MOST_FLAGS]]
    if device["errors"]:
        found.append(("warn", count(len(device["errors"]), "error")))
    return found


def state(device):
    """(symbol, text) of the state that a device has told, if there is no reason to doubt it."""
    told = clip(device["state"] or "unknown", 24)
    if device["retired"]:
        return "unknown", "retired"
    if device["silent"] and told in ("online", "asleep"):
        return "unknown", f"was {told}"
    if device["safe"]:
        return "warn", f"{told}, safe mode"
    return told if told in ("online", "asleep", "offline") else "unknown", told


def build(device):
    """Its earlier names, note and group, and which release on which board."""
    python = device["micropython"] and f"MicroPython {clip(device['micropython'], 24)}"
    group = None if device["group"] == device["board"] else device["group"]
    former = device["former"] and f"was {', '.join(device['former'])}"
    known = (former, device["note"], group, device["firmware"], device["board"], python)
    return " · ".join(clip(text, 40) for text in known if text)


def link(device):
    """The address of its page in the console."""
    return "device?name=" + quote(device, safe="", errors="backslashreplace")


def event(event):
    """(time, text) of an event."""
    return moment(event["t"], exact=True), ": ".join(clip(event[key], 60) for key in ("what", "detail") if event[key])
