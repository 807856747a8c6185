"""A form for the configuration of a device: what it shows, and what a browser sends back. Its fields are texts by name:
`interval_ms`, and of the first sensor `sensors.0.driver`, `sensors.0.pin`."""

import functools
import json
from typing import NamedTuple

from inflight_tools.boards.images.variants import board, pin_numbers
from inflight_tools.devices import change
from inflight_tools.output import WrongArgument
from inflight_tools.settings import SECRETS, config_fields, known_drivers, of_firmware
from inflight_tools.visible import visible

KINDS = ("sensors", "actuators")
_OWN = {"sensors": ("name", "report_on_change", "check_ms"), "actuators": ("name", "restore")}  # fields of no driver


class Input(NamedTuple):
    name: str
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
    return {name: _text(value) for name, value in _values(configuration).items()}


def _values(configuration):
    """{name in a form: value} of what it shows."""
    found = {name: configuration[name] for name in _shown() if name in configuration}
    for kind in KINDS:
        entries = configuration.get(kind)
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            entry = entry if isinstance(entry, dict) else {"driver": entry}
            found |= {visible(f"{kind}.{number}.{field}"): value for field, value in entry.items()}
    return found


@functools.cache
def _shown():
    return [name for name in config_fields() if not change.by_cable(name) and name not in (*KINDS, "device")]


def _text(value):
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _typed(name, text, default):
    is_text = name in ("driver", "name") or (isinstance(default, str) and default != of_firmware("sensors", "NEEDED"))
    return text if is_text else change.json_or_text(text)


def configuration(form, known):
    """The configuration that a form asks for, a dict, of a device with the configuration `known`, {}: not known; a
    secret that the form leaves empty is not in it. What is shown and comes back as it was keeps its value, of which the
    text does not tell all."""
    before, values = texts(known), _values(known)
    form = {name: text for name, text in form.items() if text.strip() or name in before}
    kept = {name: value for name, value in values.items() if form.get(name) == before[name]}
    found = {name: value for name, value in known.items() if name not in (*_shown(), *KINDS)}
    found |= {name: change.value_of(name, form[name]) for name in _shown() if form.get(name, "").strip()}
    found |= {name: value for name, value in kept.items() if name in _shown()}
    for kind in KINDS:
        of_kind = [{name: text for name, text in of.items() if f"{kind}." in name} for of in (form, before)]
        if kind in known and of_kind[0] == of_kind[1]:
            found[kind] = known[kind]
        elif numbered := _numbered(form, kind):
            found[kind] = [_entry(f"{kind}.{number}.", fields, kept) for number, fields in numbered.items()]
    return found


def changes(form, known):
    """{field: value} of what a form changes, as change.check() takes it."""
    return change.differing(dict.fromkeys(known) | configuration(form, known), known)


def added(form):
    """The form with one more entry, of the kind and driver in its field `add`."""
    kind, _, driver = form.get("add", "").partition(" ")
    if kind not in KINDS or driver not in known_drivers(kind[:-1]):
        raise WrongArgument("choose a driver of the list")
    place = f"{kind}.{max(_all(form, kind), default=-1) + 1}."
    return form | {f"{place}driver": driver, "added": place}


def has_entries(form):
    """Whether a form has sensors or actuators."""
    return any(_all(form, kind) for kind in KINDS)


def _all(form, kind):
    """{number: fields} of the entries in a form, in their order."""
    found = {}
    for name, text in form.items():
        group, number, *field = name.split(".", 2) if "." in name else (name, "")
        if group == kind and number.isdecimal() and len(number) < 6 and field:
            found.setdefault(int(number), {})[field[0]] = text
    return dict(sorted(found.items()))


def _numbered(form, kind):
    """As _all(), without those that the form removes."""
    return {number: fields for number, fields in _all(form, kind).items() if f"remove.{kind}.{number}." not in form}


def _entry(place, fields, kept):
    defaults = _defaults(fields.get("driver", ""))
    typed = {name: _typed(name, text, defaults.get(name)) for name, text in fields.items() if text.strip()}
    return typed | {name: kept[place + name] for name in fields if place + name in kept}


def _defaults(driver):
    """{field: default, or sensors.NEEDED} of the entries of that driver; {} of one that only the device has."""
    for kind in ("sensor", "actuator"):
        if driver in known_drivers(kind):
            return of_firmware(of_firmware("sensors", "module_of")(kind, driver), "FIELDS")
    return {}


def shown(form, board_name):
    """What a page shows of a form: `set` and `others`, Inputs; `entries`, {kind: [Entry]}; `drivers` that can be added;
    `pins`, those of a board of that name for sensors and actuators, as far as it is known; `of`: which configuration it
    shows; `added`: the name of the Entry that is new, ""."""
    inputs = [Input(name, *config_fields()[name][:3], form.get(name, ""), name in SECRETS) for name in _shown()]
    return {
        "set": [one for one in inputs if one.value],
        "others": [one for one in inputs if not one.value],
        "entries": {kind: list(_entries(form, kind)) for kind in KINDS},
        "drivers": [f"{kind} {driver}" for kind in KINDS for driver in known_drivers(kind[:-1])],
        "pins": _pins(board_name),
        "of": form.get("of", ""),
        "added": form.get("added", ""),
    }


def _entries(form, kind):
    pins = of_firmware("entries", "_PINS")
    for number, fields in _numbered(form, kind).items():
        driver, name = fields.get("driver", ""), f"{kind}.{number}."
        defaults = _defaults(driver)
        names = dict.fromkeys([*_OWN[kind], *defaults, *fields])
        inputs = [
            Input(name + one, "", _text(defaults.get(one, "")), None, fields.get(one, ""), is_pin=one in pins)
            for one in names if one != "driver"
        ]  # fmt: skip
        yield Entry(name, driver, inputs)


def _pins(name):
    try:
        return sorted(set().union(*(pin_numbers(one.pins) for one in board(name).variants)))
    except ValueError:
        return []


def errors(form, fields, device, known):
    """{name in the form: what is wrong} of the `fields` that a form changes, "" for what concerns no single field; and
    what was wrong before, texts."""
    found = {}
    while fields:
        try:
            return found, change.check(fields, device, known)
        except WrongArgument as e:
            name, _, why = str(e).partition(": ")
            name = name.partition(" ")[0]  # of "host is missing: ..."
            found[_place(name, why, form, fields)] = str(e)
            if name not in fields:
                return found, []
            fields = {one: value for one, value in fields.items() if one != name}
    return found, []


def _place(name, why, form, fields):
    if name in KINDS and fields.get(name):
        for number, entry in zip(_numbered(form, name), fields[name], strict=False):
            if why.partition(": ")[0] == (entry.get("name") or entry.get("driver")):
                return f"{name}.{number}."
    return name if name in config_fields() else ""
