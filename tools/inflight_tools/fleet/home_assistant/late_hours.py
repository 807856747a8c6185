"""Late readings in Home Assistant's statistics, at their true time, by its WebSocket API."""

import contextlib
import datetime
import importlib
import json

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
    "B": {"kB": 1000, "MB": 10**6, "GB": 10**9, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3},
    "s": {"ms": 0.001, "min": 60, "h": 3600, "d": 86400},
}
# Whole hours in which readings arrived so late that Home Assistant had them at no time, or at the wrong one. An hour is
# imported with all of its readings, since it takes the place of what Home Assistant has of it: with those, too, that
# only `minutes` has any more.
_HOURS = """
WITH late AS (
    SELECT DISTINCT device, name, unit, date_trunc('hour', time) AS began FROM every_measurements
    WHERE value IS NOT NULL AND date_trunc('hour', time) + INTERVAL 1 HOUR <= to_timestamp({over!r})
        AND received > time + INTERVAL {late} SECONDS AND epoch(received) BETWEEN {since!r} AND {until!r})
SELECT device, name, unit, epoch(date_trunc('hour', minute)) AS hour, sum(total) / sum(count) AS mean,
    min(min) AS min, max(max) AS max
FROM every_minutes SEMI JOIN late ON every_minutes.device = late.device AND every_minutes.name = late.name
    AND every_minutes.unit IS NOT DISTINCT FROM late.unit AND date_trunc('hour', minute) = began
GROUP BY ALL ORDER BY device, name, hour
"""


class Refused(Exception):
    """Home Assistant does not do it. The text says why."""


def hours(database, now, late_s, since=None, until=None):
    """{unique id of an entity: (unit, [(start of an hour, mean, least, most)])} of what arrived more than `late_s`
    seconds after it was measured, between `since` and `until`. Times are in s since 1970; an hour of which Home
    Assistant may have no statistics yet at `now` is left out."""
    span = {"since": float(since or 0), "until": float(now if until is None else until)}
    found: dict = {}
    with device_code():
        discovery = importlib.import_module("discovery")
        for row in database.rows(_HOURS.format(over=float(now) - _SUMMARIZED_S, late=int(late_s), **span)):
            entity = "-".join(map(discovery._identifier, (row["device"], row["name"])))
            unit = discovery._with_unit({"name": row["name"]}, row["unit"]).get("unit_of_measurement")
            numbers = row["hour"], row["mean"], row["min"], row["max"]
            found.setdefault(entity, (unit, []))[1].append(numbers)
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
        elif not about or about["has_sum"]:
            left[unique] = f"{entity} has no statistics of this kind"
        elif not (convert := _converter(unit, about["statistics_unit_of_measurement"])):
            left[unique] = f"{entity} has its statistics in {about['statistics_unit_of_measurement']}, not in {unit}"
        else:
            for at in range(0, len(rows), _ROWS):
                stats = [_row(convert, *numbers) for numbers in rows[at : at + _ROWS]]
                home.ask("recorder/import_statistics", metadata=_metadata(home.version, about), stats=stats)
            written[entity] = len(rows)
    return written, left


def _converter(ours, theirs):
    """What makes of a value in the unit `ours` one in the unit `theirs`; None: nothing is known."""
    if ours == theirs:
        return float
    if ours == "°C":
        return {"°F": lambda value: value * 1.8 + 32, "K": lambda value: value + 273.15}.get(theirs)
    one = UNITS.get(ours, {}).get(theirs)
    return one and (lambda value: value / one)


def _row(convert, hour, *numbers):
    start = datetime.datetime.fromtimestamp(hour, datetime.timezone.utc).isoformat()
    return {"start": start} | dict(zip(("mean", "min", "max"), map(convert, numbers), strict=True))


def _metadata(version, about):
    unit = about["statistics_unit_of_measurement"]
    fields = {name: about[name] for name in ("statistic_id", "source", "name")}
    fields |= {"has_sum": False, "unit_of_measurement": unit}
    if tuple(map(int, version.split(".")[:2])) < _UNIT_CLASS:
        return fields | {"has_mean": True}
    return fields | {"mean_type": 1, "unit_class": about["unit_class"]}
