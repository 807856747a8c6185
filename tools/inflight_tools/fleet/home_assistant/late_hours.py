"""Late readings in Home Assistant's statistics, at their true time, by its WebSocket API."""

import contextlib
import datetime
import importlib
import json
import math
from typing import NamedTuple

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from inflight_tools.settings import device_code

_ANSWER_S = 30
_ROWS = 1000  # of one import
# After an hour, until Home Assistant has made its own statistics of it, which it does after ten seconds. An import
# before that would cost it the hour of all its entities.
_SUMMARIZED_S = 600
_UNIT_CLASS = (2025, 11)  # from this version of Home Assistant on an import has these fields
# {unit of a device: {unit that somebody chose for an entity or for a home: how many of the device's it is}}
UNITS: dict[str, dict[str, float]] = {
    "Pa": {"hPa": 100, "kPa": 1000, "mbar": 100, "bar": 100_000, "psi": 6894.757, "inHg": 3386.389, "mmHg": 133.3224},
    "m": {"km": 1000, "cm": 0.01, "mm": 0.001, "mi": 1609.344, "yd": 0.9144, "ft": 0.3048, "in": 0.0254},
    "kg": {"g": 0.001, "mg": 1e-6, "µg": 1e-9, "lb": 0.45359237, "oz": 0.028349523},
    "V": {"mV": 0.001},
    "A": {"mA": 0.001},
    "W": {"kW": 1000},
    "Wh": {"kWh": 1000, "MWh": 10**6},
    "kWh": {"Wh": 0.001, "MWh": 1000},
    "B": {"kB": 1000, "MB": 10**6, "GB": 10**9, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3},
    "s": {"ms": 0.001, "min": 60, "h": 3600, "d": 86400},
}
# Whole hours in which readings arrived so late that Home Assistant had them at no time, or at the wrong one; and the
# hour behind each, in which a meter jumped there. An hour is imported with all of its readings, since it takes the
# place of what Home Assistant has of it: with those, too, that only `minutes` has any more.
_HOURS = """
WITH lately AS (
    SELECT DISTINCT device, name, unit, date_trunc('hour', time) AS hour FROM every_measurements
    WHERE value IS NOT NULL AND date_trunc('hour', time) + INTERVAL 1 HOUR <= to_timestamp({over!r})
        AND received > time + INTERVAL {late} SECONDS AND epoch(received) BETWEEN {since!r} AND {until!r}),
minutes AS (
    SELECT device, name, unit, date_trunc('hour', minute) AS hour, minute,
        sum(total) AS total, sum(count) AS count, min(min) AS min, max(max) AS max
    FROM every_minutes SEMI JOIN lately ON every_minutes.device = lately.device AND every_minutes.name = lately.name
        AND every_minutes.unit IS NOT DISTINCT FROM lately.unit
    WHERE minute >= (SELECT min(hour) FROM lately) GROUP BY ALL),
hours AS (
    SELECT device, name, unit, hour, sum(total) / sum(count) AS mean, min(min) AS min, max(max) AS max,
        arg_min(max, minute) AS first, arg_max(max, minute) AS last, coalesce(sum({growth}), 0) AS growth
    FROM (SELECT *, lag(max) OVER (PARTITION BY device, name, unit, hour ORDER BY minute) AS before FROM minutes)
    GROUP BY ALL)
SELECT hours.device, hours.name, hours.unit, epoch(hours.hour) AS start, mean, min, max, first, last, growth,
    lately.hour IS NOT NULL AS late
FROM hours LEFT JOIN lately ON hours.device = lately.device AND hours.name = lately.name
    AND hours.unit IS NOT DISTINCT FROM lately.unit AND hours.hour = lately.hour
QUALIFY late OR lag(late) OVER (PARTITION BY hours.device, hours.name, hours.unit ORDER BY hours.hour)
ORDER BY hours.device, hours.name, start
"""
# A meter that shows less than nine tenths of what it showed before began at 0 again: as Home Assistant has it.
_RESET = 0.9


class Hour(NamedTuple):
    """start: in s since 1970. first, last: what a meter shows in the first and in the last minute that has readings;
    growth: how much it counted between these. late: whether it is to be imported."""

    start: float
    mean: float
    min: float
    max: float
    first: float
    last: float
    growth: float
    late: bool


class Refused(Exception):
    """Home Assistant does not do it. The text says why."""


def hours(database, now, late_s, since=None, until=None):
    """{unique id of an entity: (unit, [Hour])} of what arrived more than `late_s` seconds after it was measured,
    between `since` and `until`. Times are in s since 1970; an hour of which Home Assistant may have no statistics yet
    at `now` is not late."""
    span = {"since": float(since or 0), "until": float(now if until is None else until)}
    growth = f"CASE WHEN max < {_RESET} * before THEN max ELSE max - before END"
    found: dict = {}
    with device_code():
        discovery = importlib.import_module("discovery")
        query = _HOURS.format(over=float(now) - _SUMMARIZED_S, late=int(late_s), growth=growth, **span)
        for row in database.rows(query):
            entity = "-".join(map(discovery._identifier, (row["device"], row["name"])))
            unit = discovery._with_unit({"name": row["name"]}, row["unit"]).get("unit_of_measurement")
            hour = Hour(**{name: row[name] for name in Hour._fields})
            found.setdefault(entity, (unit, []))[1].append(hour)
    return found


class HomeAssistant:
    """The WebSocket API at `url` of Home Assistant, https://homeassistant.local:8123 for one, for `with`. token: a
    long-lived access token of an administrator. Raises Refused, OSError."""

    def __init__(self, url, token):
        scheme, _, place = url.rstrip("/").partition("://")
        if scheme not in ("http", "https") or not place:
            raise Refused(f"{url}: write it as https://homeassistant.local:8123")
        self._url, self._token = f"{scheme.replace('http', 'ws', 1)}://{place}/api/websocket", token
        self._stack = contextlib.ExitStack()
        self._id = 0

    def __enter__(self):
        with self._stack:
            try:
                self._socket = self._stack.enter_context(connect(self._url, open_timeout=_ANSWER_S, max_size=None))
            except WebSocketException as e:
                raise Refused(f"no Home Assistant at {self._url}: {e}") from None
            self.version = self._receive()["ha_version"]
            self._send({"type": "auth", "access_token": self._token})
            if self._receive()["type"] != "auth_ok":
                raise Refused("Home Assistant does not take the token: make one in the profile of an administrator")
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *exception):
        self._stack.close()

    def _send(self, message):
        try:
            self._socket.send(json.dumps(message))
        except WebSocketException as e:
            raise Refused(f"Home Assistant closed the connection: {e}") from None

    def _receive(self):
        try:
            return json.loads(self._socket.recv(_ANSWER_S))
        except (WebSocketException, TimeoutError) as e:
            raise Refused(f"no answer of Home Assistant: {e or 'time-out'}") from None

    def ask(self, kind, **fields):
        """Returns the result of a command."""
        self._id += 1
        self._send({"id": self._id, "type": kind, **fields})
        while (answer := self._receive()).get("id") != self._id or answer["type"] != "result":
            pass  # an event
        if not answer["success"]:
            raise Refused(f"Home Assistant refuses {kind}: {answer['error']['message']}")
        return answer["result"]


def write(home, found):
    """Imports what hours() returned. Returns ({entity id: hours}, {unique id: why it was left out})."""
    entities = {
        one["unique_id"]: one["entity_id"]
        for one in home.ask("config/entity_registry/list")
        if one["platform"] == "mqtt" and one["unique_id"] in found
    }
    ids = sorted(entities.values())
    known = home.ask("recorder/get_statistics_metadata", statistic_ids=ids) if ids else ()
    metadata = {one["statistic_id"]: one for one in known}
    written, left = {}, {}
    for unique, (unit, rows) in found.items():
        entity = entities.get(unique)
        about = metadata.get(entity)
        if not entity:
            left[unique] = "Home Assistant has no such entity"
        elif not about:
            left[unique] = f"{entity} has no statistics"
        elif not (convert := _converter(unit, about["statistics_unit_of_measurement"])):
            left[unique] = f"{entity} has its statistics in {about['statistics_unit_of_measurement']}, not in {unit}"
        else:
            stats = _sums(home, about, convert, rows) if about["has_sum"] else _means(convert, rows)
            for at in range(0, len(stats), _ROWS):
                fields = {"metadata": _metadata(home.version, about), "stats": stats[at : at + _ROWS]}
                home.ask("recorder/import_statistics", **fields)
            written[entity] = len(stats)
    return written, left


def _converter(ours, theirs):
    """What makes of a value in the unit `ours` one in the unit `theirs`; None: nothing is known."""
    if ours == theirs:
        return float
    if ours == "°C":
        return {"°F": lambda value: value * 1.8 + 32, "K": lambda value: value + 273.15}.get(theirs)
    one = UNITS.get(ours, {}).get(theirs)
    return one and (lambda value: value / one)


def _time(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()


def _means(convert, rows):
    """The late hours of a sensor."""
    return [
        {"start": _time(row.start)} | {kind: convert(getattr(row, kind)) for kind in ("mean", "min", "max")}
        for row in rows
        if row.late
    ]


def _grown(before, now):
    """How much a meter has counted, as Home Assistant does."""
    return now if now < _RESET * before else now - before


def _sums(home, about, convert, rows):
    """The late hours of a meter, whose `sum` goes on from the hour before them in Home Assistant.

    The hour behind them has the right sum there, with all that the meter counted meanwhile: it is as unchanged as later
    ones, and the late hours take their part of its jump. Only if the meter began at 0 again in an outage Home Assistant
    could not see all of that: then the sums behind are adjusted. This comes first, since it moves hours imported before
    it, too; a run that was interrupted, or is repeated, compares again what is there."""
    entity, unit = about["statistic_id"], about["statistics_unit_of_measurement"]
    span = {"start_time": _time(0), "period": "hour", "types": ["state", "sum"]}
    units = {about["unit_class"]: unit} if about["unit_class"] else {}
    known = home.ask("recorder/statistics_during_period", statistic_ids=[entity], units=units, **span).get(entity, ())
    theirs = {row["start"] // 1000: row for row in known if None not in (row["state"], row["sum"])}
    ours = {row.start: row for row in rows}
    total = state = None
    stats, adjusted, is_behind = [], 0.0, False
    for start in sorted({*theirs, *ours}):
        one, there = ours.get(start), theirs.get(start)
        if one and (one.late or is_behind):
            first, last, growth = map(convert, (one.first, one.last, one.growth))
            total = growth if total is None else total + _grown(state, first) + growth
            state = last
        if one and one.late:
            stats.append({"start": _time(start), "state": state, "sum": total})
            is_behind = True
        elif there:
            was = there["sum"] + adjusted
            if is_behind:
                total += _grown(state, there["state"])
                if not math.isclose(total, was, abs_tol=1e-6):  # else it is the rounding of sums
                    change = {"adjustment": total - was, "adjustment_unit_of_measurement": unit}
                    home.ask("recorder/adjust_sum_statistics", statistic_id=entity, start_time=_time(start), **change)
                    adjusted += total - was
                    was = total
            total, state, is_behind = was, there["state"], False
    return stats


def _metadata(version, about):
    fields = {name: about[name] for name in ("statistic_id", "source", "name", "has_sum")}
    fields["unit_of_measurement"] = about["statistics_unit_of_measurement"]
    if tuple(map(int, version.split(".")[:2])) < _UNIT_CLASS:
        return fields | {"has_mean": not about["has_sum"]}
    return fields | {"mean_type": int(not about["has_sum"]), "unit_class": about["unit_class"]}
