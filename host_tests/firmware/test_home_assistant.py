"""Announcements by Home Assistant's own code: its schemas, and what its templates make of the device's messages."""

import json
import subprocess
import sys
import time
import types

import pytest

from discovery import _UNITS
from host_tests.firmware.test_home import ACTUATORS, machine_module  # noqa: F401 (a fixture)
from tools.setup import home_assistant
from tools.setup.common import CHECKOUT

PREFIX = "homeassistant"
UNITS = [text.partition("=")[0] for row in _UNITS.strip().split("\n") for text in row.split()[1:]]
READINGS = [(f"in-{n}", unit, n + 0.5) for n, unit in enumerate([*UNITS, "/", "count", "ppm", "count/min"])]
READINGS += [
    ("air-co2", "ppm", 500),
    ("door", None, True),
    ("window", None, False),
    ("mode", None, "auto"),
    ("at:a/1.5", "V", 3),
]

# Of these units later versions of Home Assistant know the class. This one logs them, and uses the sensor nevertheless.
NEWER = ("J", "m³/s", "L/s")

if home_assistant.unavailable():
    pytest.skip(home_assistant.unavailable(), allow_module_level=True)


def checked(announced, states=None):
    """What Home Assistant makes of these announcements, and of messages; {topic without prefix and /config: ...}."""
    given = {"prefix": PREFIX, "announced": announced, "states": states or {}}
    command = [home_assistant.program("python"), CHECKOUT / "tools/home_assistant/check.py"]
    environment = {"PATH": "/usr/bin:/bin"}  # none of our modules
    done = subprocess.run(
        command, input=json.dumps(given), env=environment, capture_output=True, text=True, timeout=240
    )
    assert not done.returncode, done.stderr
    found = {topic[len(PREFIX) + 1 : -len("/config")]: one for topic, one in json.loads(done.stdout).items()}
    for one in found.values():
        one["problems"] = [
            text for text in one["problems"] if not text.startswith(tuple(f"{n} is no unit" for n in NEWER))
        ]
    return found


class Meter:
    """A driver whose readings are counted: state class total_increasing."""

    def __init__(self, fields, name):
        self.name = name

    def read(self):
        return [(self.name, "l", 7)]


@pytest.fixture
def device(make, broker, until, machine_module, monkeypatch):  # noqa: F811
    """device(...) runs a device with these fields; returns (announcements, {topic: last message})."""
    monkeypatch.setitem(sys.modules, "sensor_counter", types.SimpleNamespace(FIELDS={}, Driver=Meter))

    def run(**fields):
        app = make(broker.port, ha=True, sensors=[{"driver": "counter", "name": "rain"}], **fields)
        app.board.readings = READINGS
        last_ones = [f"sensor/dev/{name}" for name in ("rain", "air-co2")] + ["number/dev/interval"]
        wanted = {f"{PREFIX}/{entity}/config" for entity in last_ones}
        if "sleep_ms" in fields:
            app.run()
        else:
            until(app, lambda: wanted <= set(_announced(broker)) and not app.client.pending)
        last = {m.topic: m.payload.decode() for m in list(broker.arrived) if m.topic.startswith("inflight/dev/")}
        return _announced(broker), last

    return run


def _announced(broker):
    return {m.topic: json.loads(m.payload) for m in list(broker.arrived) if m.topic.startswith(PREFIX + "/")}


def test_every_announcement_is_valid_and_its_templates_find_the_values(device):
    announced, states = device(actuators=ACTUATORS, interval_ms=60_000)
    found = checked(announced, states)
    assert {topic: entity["problems"] for topic, entity in found.items() if entity["problems"]} == {}
    for name, _, value in [*READINGS, ("rain", "l", 7)]:
        component = "binary_sensor" if isinstance(value, bool) else "sensor"
        object_id = {"at:a/1.5": "at_3aa_2f1_2e5"}.get(name, name)
        entity = found[f"{component}/dev/{object_id}"]
        assert (entity["state"], entity["available"]) == (str(value), "online"), name
        # A reading that is not in the state: Home Assistant ignores an empty state of a sensor.
        assert entity["without"] == (["before" if isinstance(value, str) else "", "offline"]), name
    health = json.loads(states["inflight/dev/state"])["health"]
    for field in ("rssi", "heap", "up"):
        assert found[f"sensor/dev/health-{field}"]["state"] == str(health[field])
        assert found[f"sensor/dev/health-{field}"]["without"] == ["", "online"]
    assert found["sensor/dev/health-journal_2elive"]["state"] == str(health["live"])
    assert found["switch/dev/actuator-pump"]["state"] == "off"
    assert found["number/dev/actuator-fan"]["state"] == "0"
    lamp = found["light/dev/actuator-lamp"]
    assert (lamp["state"], lamp["color"], lamp["command"]) == ("off", "255,255,255", "#ff0800")
    states["inflight/dev/status"] = '{"state": "offline", "firmware": "0.1.0"}'  # the will
    assert {entity["available"] for entity in checked(announced, states).values()} == {"offline"}


def test_an_old_state_of_a_sensor_that_sleeps(device):
    """It is retained: Home Assistant has it when that starts. Without a clock nobody knows how old it is."""
    announced, states = device(sleep_ms=60_000)
    found = checked(announced, states)
    assert {topic: entity["problems"] for topic, entity in found.items() if entity["problems"]} == {}
    assert {entity.get("available") for entity in found.values()} == {"online"}
    state = json.loads(states["inflight/dev/state"])
    for age_s, available in ((-3600, "online"), (0, "online"), (60, "online"), (500, "offline"), (None, "online")):
        state.pop("t", None)
        if age_s is not None:
            state["t"] = int(time.time()) - age_s
        found = checked(announced, states | {"inflight/dev/state": json.dumps(state)})
        assert found["sensor/dev/rain"]["available"] == available, age_s
        assert found["sensor/dev/health-up"]["available"] == "online"
