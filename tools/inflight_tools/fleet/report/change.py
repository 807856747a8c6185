"""What has changed since the report that a page replaces. Each page keeps the figures that the next one needs."""

import json
import re

from .words import clip, count, known, number

_FIGURES = re.compile(r'<script id="figures" type="application/json">(.*?)</script>', re.DOTALL)
# Keys of the fleet's facts, and words.
_COUNTS = {
    "accepted": "accepted",
    "delivered": "delivered",
    "lost": "lost",
    "given_up": "given up",
    "on_way": "on the way",
    "on_device": "in a journal",
    "dead_letters": "dead letters",
    "restarts": "restarts",
    "devices": "devices",
    "silent": "silent",
}
_MOST_NAMES = 8


def figures(facts):
    """What a page keeps of its facts."""
    kept = {name: facts[name] for name in ("made", "root", "asked")}
    silent = [one["device"] for one in facts["devices"] if one["silent"]]
    return kept | {"fleet": {name: facts["fleet"][name] for name in _COUNTS}, "silent": silent}


def _is_of_figures(found):
    return (
        isinstance(found, dict)
        and known(found.get("made"))
        and isinstance(fleet := found.get("fleet"), dict)
        and all(type(fleet.get(name)) is int for name in _COUNTS)
        and isinstance(silent := found.get("silent"), list)
        and all(isinstance(name, str) for name in silent)
    )


def change(path, facts):
    """What has changed since the report in the file `path`: {"since": when that was made, in s since 1970, "figures":
    {name: difference}, "silent": names of devices that are silent now, and were not, "heard": of those that are not
    any more}. None if there is none, or none that can be read, or if it is of another fleet or time: its figures cannot
    be compared. The names are of devices that both reports list."""
    try:
        found = _FIGURES.search(path.read_text(encoding="utf-8"))
        before = json.loads(found[1]) if found else None
    except (OSError, ValueError, RecursionError):
        return None
    if not _is_of_figures(before) or before["made"] > facts["made"]:
        return None
    if any(before.get(name) != facts[name] for name in ("root", "asked")):
        return None
    now = figures(facts)
    listed = {one["device"] for one in facts["devices"]}
    whole = len(before["silent"]) == before["fleet"]["silent"]
    return {
        "since": before["made"],
        "figures": {name: now["fleet"][name] - before["fleet"][name] for name in _COUNTS},
        "silent": sorted(set(now["silent"]) - set(before["silent"])) if whole else [],
        "heard": sorted(listed & set(before["silent"]) - set(now["silent"])),
    }


def _named(names, words):
    if names:
        listed = ", ".join(clip(name, 64) for name in names[:_MOST_NAMES])
        more = f" and {number(len(names) - _MOST_NAMES)} more" if len(names) > _MOST_NAMES else ""
        yield f"{count(len(names), 'device')} {words}: {listed}{more}"


def told(changed):
    """The change as words, one for each figure that differs."""
    differ = {name: n for name, n in changed["figures"].items() if n}
    found = [f"{_COUNTS[name]} {'+' if n > 0 else '−'}{number(abs(n))}" for name, n in differ.items()]
    found += [*_named(changed["silent"], "newly silent"), *_named(changed["heard"], "heard of again")]
    return found or ["nothing"]
