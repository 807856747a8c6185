"""A form for the configuration of a device: what it shows, and what a browser sends back. Its fields are texts by name:
`interval_ms`, and of the first sensor `sensors.0.driver`, `sensors.0.pin`."""

import importlib
import json
from typing import NamedTuple

from inflight_tools.boards.images.variants import board, pin_numbers
from inflight_tools.devices import change
from inflight_tools.devices.roster import WrongArgument
from inflight_tools.settings import SECRETS, config_fields, device_code, known_drivers
from inflight_tools.visible import visible

KINDS = ("sensors", "actuators")
_OWN = ("name", "report_on_change", "check_ms")  # fields of a sensor that are no driver's; an actuator has the first
_PINS = ("pin", "sda", "scl", "data", "clock")
_NEEDED = "needed"  # as the firmware's sensors.NEEDED


class Input(NamedTuple):
    name: str
    label: str
    meaning: str
    default: str
    limits: tuple[int, int] | None
    value: str
    secret: bool = False
    is_pin: bool = False


class Entry(NamedTuple):
    """name: of its fields, up to the last dot."""

    name: str
    driver: str
    inputs: list[Input]


def texts(configuration):
    """The fields of a form that shows this configuration, a dict."""
    found = {}
    for name, value in configuration.items():
        if name in KINDS and isinstance(value, list):
            for number, entry in enumerate(value):
                entry = entry if isinstance(entry, dict) else {"driver": str(entry)}
                found |= {f"{name}.{number}.{field}": _text(one) for field, one in entry.items()}
        else:
            found[name] = _text(value)
    return found


def _shown():
    return [name for name in config_fields() if not change.by_cable(name) and name not in (*KINDS, "device")]


def _text(value):
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _typed(name, text, default):
    if name in ("driver", "name") or (isinstance(default, str) and default != _NEEDED):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # a check refuses it where it has to be another one


def configuration(form, known):
    """The configuration that a form asks for, a dict, of a device with the configuration `known`, {}: not known; a
    secret that the form leaves empty is not in it."""
    found = {name: value for name, value in known.items() if name not in (*_shown(), *KINDS)}
    for name in _shown():
        text = form.get(name, "").strip()
        if text:
            found[name] = known[name] if name in known and text == _text(known[name]) else change.value_of(name, text)
    for kind in KINDS:
        if numbered := _numbered(form, kind):
            found[kind] = list(map(_entry, numbered.values()))
    return found


def changes(form, known):
    """{field: value} of what a form changes, as change.check() takes it."""
    whole = dict.fromkeys(known) | configuration(form, known)
    return {name: value for name, value in whole.items() if value != known.get(name, "") or name in SECRETS}


def added(form):
    """The form with one more entry, of the kind and driver in its field `add`."""
    kind, _, driver = form.get("add", "").partition(" ")
    if kind not in KINDS or driver not in known_drivers(kind[:-1]):
        raise WrongArgument("choose a driver of the list")
    return form | {f"{kind}.{max(_numbered(form, kind), default=-1) + 1}.driver": driver}


def _numbered(form, kind):
    """{number: fields} of the entries in a form, in their order."""
    found = {}
    for name, text in form.items():
        group, number, field = (*name.split(".", 2), "", "")[:3]
        if group == kind and number.isdecimal() and len(number) < 4 and field:
            found.setdefault(int(number), {})[field] = text.strip()
    return {number: fields for number, fields in sorted(found.items()) if "remove" not in fields}


def _entry(fields):
    defaults = _defaults(fields.get("driver", ""))
    return {name: _typed(name, text, defaults.get(name)) for name, text in fields.items() if text}


def _defaults(driver):
    """{field: default, or _NEEDED} of the entries of that driver; {} of one that only the device has."""
    for kind in ("sensor", "actuator"):
        if driver in known_drivers(kind):
            with device_code():
                module = importlib.import_module("sensors").module_of(kind, driver)
                return dict(importlib.import_module(module).FIELDS)
    return {}


def shown(form, board_name):
    """What a page shows of a form: `set` and `others`, Inputs; `entries`, {kind: [Entry]}; `drivers` that can be added;
    `pins`, those of a board of that name for sensors and actuators, as far as it is known."""
    inputs = [
        Input(name, name, *config_fields()[name][:3], form.get(name, ""), name in SECRETS)
        for name in _shown()
    ]  # fmt: skip
    return {
        "set": [one for one in inputs if one.value],
        "others": [one for one in inputs if not one.value],
        "entries": {kind: list(_entries(form, kind)) for kind in KINDS},
        "drivers": [f"{kind} {driver}" for kind in KINDS for driver in known_drivers(kind[:-1])],
        "pins": _pins(board_name),
    }


def _entries(form, kind):
    for number, fields in _numbered(form, kind).items():
        driver, name = fields.get("driver", ""), f"{kind}.{number}."
        defaults = _defaults(driver)
        names = dict.fromkeys([*_OWN[: 3 if kind == "sensors" else 1], *defaults, *fields])
        inputs = [
            Input(name + one, one, "", _text(defaults.get(one, "")), None, fields.get(one, ""), is_pin=one in _PINS)
            for one in names if one != "driver"
        ]  # fmt: skip
        yield Entry(name, driver, inputs)


def _pins(name):
    try:
        return sorted(set().union(*(pin_numbers(one.pins) for one in board(name).variants)))
    except ValueError:
        return []


def errors(fields, device, known):
    """{name in the form: what is wrong} of a change, "" for what concerns no single field; and what was wrong before,
    texts."""
    found = {}
    while fields:
        try:
            return found, change.check(fields, device, known)
        except WrongArgument as e:
            name, _, why = str(e).partition(": ")
            if name not in fields:
                return found | {name.partition(" ")[0] if name.partition(" ")[0] in fields else "": str(e)}, []
            found[_place(name, why, fields)] = str(e)
            fields = {one: value for one, value in fields.items() if one != name}
    return found, []


def _place(name, why, fields):
    for number, entry in enumerate(fields[name] or () if name in KINDS else ()):
        if why.partition(": ")[0] == (entry.get("name") or entry.get("driver")):
            return f"{name}.{number}."
    return name
