"""A form of a device's settings, as a browser sends it back."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from host_tests.tools.devices.test_serve import filled
from host_tests.tools.fleet.report.reading import read
from inflight_tools.devices import form
from inflight_tools.fleet.report import render_roster
from inflight_tools.settings import config_fields, known_drivers

_VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(max_size=8) | some.sampled_from(["5", " 5", "5 ", "true", "null", "[]", "\r\n", "\\x1b", '"a"']),
    lambda values: some.lists(values, max_size=3) | some.dictionaries(some.text(max_size=4), values, max_size=3),
    max_leaves=6,
)  # fmt: skip
_NAMES = some.sampled_from(["driver", "name", "pin", "unit", "scale", "pull", "remove", "a.b", "", "check_ms"])
_DRIVERS = some.sampled_from([*known_drivers("sensor"), *known_drivers("actuator")])
_ENTRIES = some.dictionaries(_NAMES | some.text(max_size=8), _VALUES, max_size=5)
_LISTS = some.lists(some.builds(lambda fields, driver: fields | {"driver": driver}, _ENTRIES, _DRIVERS) | _VALUES)
_CONFIGURATIONS = some.builds(
    lambda fields, lists: fields | lists,
    some.dictionaries(some.sampled_from([*config_fields()]) | some.text(max_size=8), _VALUES, max_size=6),
    some.dictionaries(some.sampled_from(form.KINDS), _LISTS | _VALUES),
)


def sent(texts, board="pico_w"):
    """The fields that a browser sends, in which nothing was changed, of a form with these."""
    page = render_roster("", None, "", device={"device": "a"}, token="t", form=form.shown(texts, board))
    return {name: text.replace("\r", "").replace("\n", "") for name, text in filled(read(page)).items()}


@given(_CONFIGURATIONS)
@settings(deadline=None)
def test_what_nobody_touches_keeps_its_value(known):
    assert form.configuration(sent(form.texts(known)), known) == known
    assert form.changes(sent(form.texts(known)), known) == {}


@pytest.mark.parametrize(
    "entry",
    [{"pin": "4"}, {"pull": ""}, {"remove": 1}, {"unit": 5}, *({"a": a} for a in ("5", "true", " x ", "x\u200dy"))],
    ids=str,
)
def test_an_entry_keeps_what_stands_beside_a_change(entry):
    entry = {"driver": "digital"} | entry
    known = {"host": "b", "sensors": [{"driver": "adc", "pin": 1}, entry]}
    changed = sent(form.texts(known)) | {"sensors.1.name": "new"}
    assert form.changes(changed, known) == {"sensors": [{"driver": "adc", "pin": 1}, entry | {"name": "new"}]}


def test_true_is_another_value_than_1():
    known = {"sensors": [{"driver": "dht22", "pin": 4, "report_on_change": 1}]}
    found = form.changes(sent(form.texts(known)) | {"sensors.0.report_on_change": "true"}, known)
    assert found["sensors"][0]["report_on_change"] is True


def test_an_entry_is_added_beside_one_that_is_removed():
    known = {"sensors": [{"driver": "adc", "pin": 1}, {"driver": "dht22", "pin": 2}]}
    texts = form.added(sent(form.texts(known)) | {"remove.sensors.1.": "on", "add": "sensors counter"})
    found = form.changes(texts | {"sensors.2.pin": "3"}, known)
    assert found == {"sensors": [{"driver": "adc", "pin": 1}, {"driver": "counter", "pin": 3}]}


def test_an_error_stands_at_its_entry_behind_one_that_is_removed():
    known = {"host": "b", "sensors": [{"driver": "adc", "pin": 1}, {"driver": "dht22", "pin": 2}]}
    texts = sent(form.texts(known)) | {"remove.sensors.0.": "on", "sensors.1.pin": "4.5"}
    [place] = form.errors(texts, form.changes(texts, known), "attic", known)[0]
    assert place == "sensors.1."


def test_two_people_at_once_hinder_nobody():
    """Modules of the firmware are in place for one thread at a time."""
    known, found = {"host": "b", "sensors": [{"driver": "dht22", "pin": 4}]}, []

    def check():
        for _ in range(10):
            texts = form.texts(known) | {"interval_ms": "5"}
            found.append([*form.errors(texts, form.changes(texts, known), "attic", known)[0]])

    threads = [threading.Thread(target=check) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == 30 * [["interval_ms"]]
