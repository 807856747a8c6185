"""The collectors: what the tables know of each, and what it has counted itself since it started."""

_SILENT_S = 600  # a collector that runs counts every ten seconds
_MARKED_S = 600  # its last marker should not be older

_COUNTED = ("messages", "messages_s", "dup", "truncated", "reconnects", "errors", "files")


def behind(facts):
    """Those of the collectors in the facts that have not shown for a while that they have received all."""
    return [one for one in facts["collectors"] if not one["marked"] or facts["made"] - one["marked"] > _MARKED_S]


def collectors(facts):
    """A dict for each collector, by name. `at`: when it counted, in s since 1970; None: its counters are not in this
    landing folder. silent: whether it was connected then, and should have counted again since."""
    known = {one["by"]: one for one in facts["collectors"]}
    counted = {one["by"]: one for one in facts["counters"]}
    names = sorted(known.keys() | counted)
    return [_collector(name, known.get(name, {}), counted.get(name, {}), facts["made"]) for name in names]


def _collector(name, known, counted, now):
    lag = counted.get("lag_ms") or {}
    return {
        "by": name,
        "at": counted.get("at"),
        "connected": counted.get("connected"),
        "silent": counted.get("connected") and now - counted["at"] > _SILENT_S,
        "queue_s": known.get("queue_s"),
        "marked": known.get("marked"),
        "lag_mean": lag.get("mean"),
        "lag_max": lag.get("max"),
        **{key: counted.get(key) for key in _COUNTED},
    }
