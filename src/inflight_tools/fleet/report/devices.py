"""A device's health and history."""

from .words import clip, count, known, moment, number

MOST = 500  # rows of the page; more are of no use to anybody
_FLAGS = 12
_FULL = 0.8  # of a journal


def health(device):
    """[(symbol, words), ...] of what is wrong with it, the gravest first."""
    found = []
    if device["lost"]:
        found.append(("bad", f"{number(device['lost'])} lost"))
    if device["late"]:
        found.append(("waiting", f"{number(device['late'])} late"))
    if device["dead_letters"]:
        found.append(("warn", count(device["dead_letters"], "dead letter")))
    journal = device["journal"] or {}
    used, limit = journal.get("used"), journal.get("limit")
    if known(used) and known(limit) and used and used >= _FULL * limit:
        found.append(("warn", f"journal {100 * used / limit:.0f} % in use"))
    found += [("warn", clip(flag, 60)) for flag in device["flags"][:_FLAGS]]
    if device["errors"]:
        found.append(("warn", count(len(device["errors"]), "sensor error")))
    return found


def event(told):
    """When, and what."""
    return moment(told["t"], exact=True), ": ".join(clip(told[key], 60) for key in ("what", "detail") if told[key])
