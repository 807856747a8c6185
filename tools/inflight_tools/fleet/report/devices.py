"""A device's health and history."""

from .words import PLACES, clip, count, duration, known, moment, number

MOST = 500  # devices on the page
_MOST_FLAGS = 12
_NEARLY_FULL = 0.8  # of a journal's limit


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
    if device["dead_letters"]:
        found.append(("warn", count(device["dead_letters"], "dead letter")))
    journal = device["journal"] or {}
    used, limit = journal.get("used"), journal.get("limit")
    if known(used) and known(limit) and used and used >= _NEARLY_FULL * limit:
        found.append(("warn", f"journal {100 * used / limit:.0f} % in use"))
    found += [("warn", clip(flag, 60)) for flag in device["flags"][:_MOST_FLAGS]]
    if device["errors"]:
        found.append(("warn", count(len(device["errors"]), "error")))
    return found


def event(event):
    """(time, text) of an event."""
    return moment(event["t"], exact=True), ": ".join(clip(event[key], 60) for key in ("what", "detail") if event[key])
