"""Home Assistant's discovery: what is announced, when, and what is removed."""

import json
import sys
import types

import pytest

from codes import IDLE, ONLINE
from host_tests.firmware.conftest import Board
from inflight import RamFlash
from sleeping_app import SleepingApp

RUNTIMES = "micropython-x86"
MORE_RUNTIMES = "cpython"
ACTUATORS = [
    {"driver": "switch", "pin": 5, "name": "pump"},
    {"driver": "pwm", "pin": 6, "name": "fan"},
    {"driver": "led", "pin": 7, "name": "lamp"},
]
STATE = "inflight/dev/state"
NOON = 1_764_072_000
TOPICS = {f"sensor/dev/health-{name}" for name in ("rssi", "heap", "up", "journal_2elive")}
TOPICS |= {"sensor/dev/temperature", "button/dev/reboot", "number/dev/interval"}


@pytest.fixture
def machine_module(monkeypatch):
    class Hardware:
        OUT = 3

        def __init__(self, *how, **more):
            pass

        def __getattr__(self, name):
            return lambda *how: None

    monkeypatch.setitem(sys.modules, "machine", types.SimpleNamespace(Pin=Hardware, PWM=Hardware))
    monkeypatch.setitem(sys.modules, "neopixel", types.SimpleNamespace(NeoPixel=Hardware))


@pytest.fixture
def announced(broker):
    """{topic between prefix and /config: fields, None if it was removed}, retained messages only."""

    def run(prefix="homeassistant"):
        found = {}
        for m in list(broker.arrived):
            if m.topic.startswith(prefix + "/"):
                assert m.retain and m.topic.endswith("/config")
                found[m.topic[len(prefix) + 1 : -len("/config")]] = json.loads(m.payload) if m.payload else None
        return found

    return run


def test_each_reading_diagnostic_and_command_is_an_entity(make, broker, until, announced, published):
    """They take no sequence number."""
    app = make(broker.port, ha=True, interval_ms=60_000)
    until(app, lambda: set(announced()) >= TOPICS and published("health") and not app.client.pending)
    assert set(announced()) == TOPICS
    found = announced()["sensor/dev/temperature"]
    assert (found["device_class"], found["unit_of_measurement"]) == ("temperature", "°C")
    assert (found["state_topic"], found["state_class"]) == ("inflight/dev/state", "measurement")
    for fields in announced().values():
        topics = [condition["topic"] for condition in fields["availability"]]
        assert topics[0] == "inflight/dev/status" and fields["availability_mode"] == "all"
        assert topics[1:] == (["inflight/dev/state"] if fields["name"] == "temperature" else [])
    assert len({fields["unique_id"] for fields in announced().values()}) == len(TOPICS)
    assert {tuple(fields["device"]["identifiers"]) for fields in announced().values()} == {("dev",)}
    numbers = [m.payload for m in broker.arrived if m.topic.startswith("inflight/") and m.topic != STATE]
    assert len(numbers) == app.journal.next_seq


METERS = {
    "kWh": ("kWh", "energy"),
    "Wh": ("Wh", "energy"),
    "J": ("J", "energy"),
    "m3": ("m³", "volume"),
    "m3 water": ("m³", "water"),
    "m3 gas": ("m³", "gas"),
    "L": ("L", "water"),
    "l": ("L", "water"),
    "mm": ("mm", "precipitation"),
    "count": (None, None),
    "mm rain": ("mm", "precipitation"),
}


class Meter:
    """A counter without hardware."""

    def __init__(self, fields, name):
        self._reading = name, fields["unit"], 7

    def read(self):
        yield self._reading


def test_meters(make, broker, until, announced, monkeypatch):
    fields = {"unit": "count", "measures": ""}
    monkeypatch.setitem(sys.modules, "sensor_counter", types.SimpleNamespace(FIELDS=fields, Driver=Meter))
    entries = [{"driver": "counter", "name": f"meter-{n}"} for n in range(len(METERS))]
    for entry, words in zip(entries, METERS, strict=True):
        entry["unit"], _, entry["measures"] = words.partition(" ")
    app = make(broker.port, ha=True, interval_ms=60_000, sensors=entries)
    app.board.readings += [("power", "kW", 2), ("tank", "L", 30), ("bought", "kWh", 9)]
    names = [f"sensor/dev/{name}" for name in (f"meter-{len(METERS) - 1}", "bought")]
    until(app, lambda: set(names) <= set(announced()))
    found = announced()

    def told(name):
        fields = found[f"sensor/dev/{name}"]
        return fields.get("unit_of_measurement"), fields.get("device_class"), fields["state_class"]

    for n, right in enumerate(METERS.values()):
        assert told(f"meter-{n}") == (*right, "total_increasing")
    assert told("power") == ("kW", "power", "measurement")
    assert told("tank") == ("L", "volume_storage", "measurement")
    assert told("bought") == ("kWh", "energy", "total_increasing")


@pytest.mark.parametrize("given, qos", [({}, 2), ({"qos": 1}, 1)])
def test_actuators_are_entities(make, broker, until, announced, machine_module, given, qos):
    """Home Assistant sends commands at the highest QoS that is configured."""
    app = make(broker.port, ha="ha/x", actuators=ACTUATORS, interval_ms=60_000, **given)
    wanted = {"switch/dev/actuator-pump", "number/dev/actuator-fan", "light/dev/actuator-lamp"}
    until(app, lambda: wanted | {"button/dev/reboot", "number/dev/interval"} <= set(announced("ha/x")))
    switch = announced("ha/x")["switch/dev/actuator-pump"]
    assert switch["command_topic"] == "inflight/dev/command/actuator/pump"
    assert switch["state_topic"] == "inflight/dev/actuator/pump"
    assert {fields["qos"] for fields in announced("ha/x").values() if "command_topic" in fields} == {qos}


def states(broker):
    found = []
    for m in list(broker.arrived):
        if m.topic == STATE and m.payload:
            assert (m.qos, m.retain) == (0, True)
            found.append(json.loads(m.payload))
    return found


def expiries(announced):
    return {topic: fields.get("expire_after") for topic, fields in announced().items() if "/health" not in topic}


def test_the_state_has_the_newest_readings_and_diagnostics(make, broker, until):
    app = make(broker.port, ha=True)
    app.board.readings = [("temperature", "Cel", 21.5), ("door", None, True), ("mode", None, "auto")]
    until(app, lambda: states(broker) and states(broker)[-1]["health"])
    state = states(broker)[-1]
    assert state["readings"] == {"temperature": 21.5, "door": True, "mode": "auto"}
    assert set(state["health"]) == {"rssi", "heap", "up", "live"} and state["health"]["rssi"] == -67
    app.board.readings = [("temperature", "Cel", 22), ("door", None, OSError("no answer"))]
    until(app, lambda: states(broker)[-1]["readings"] == {"temperature": 22})
    assert "no answer" in app.errors["door"]


def test_after_an_outage_the_state_is_what_is_now(make, broker, until, published):
    """The readings of the outage are in the telemetry alone, and in the order in which they were made."""
    app = make(broker.port, ha=True, wifi_ssid="net", health_ms=1000)
    until(app, lambda: states(broker))
    app.board.readings = [("temperature", "Cel", 100)]
    until(app, lambda: not app.client.pending)
    app.board.wifi = IDLE
    broker.connections[-1].finish()
    until(app, lambda: not app.client.connected)
    for degrees in range(100, 110):
        app.board.readings = [("temperature", "Cel", degrees)]
        before = len(app.board.log)
        until(app, lambda before=before: "telemetry" in [topic for _, _, topic in app.board.log[before:]])
    broker.arrived.clear()
    app.board.wifi = ONLINE
    until(app, lambda: states(broker) and not app.client.pending)
    values = [body["v"] for body in published("telemetry")]
    assert values == sorted(values) and set(values) == set(range(100, 110))
    assert {state["readings"]["temperature"] for state in states(broker)} == {109}


def test_readings_expire_after_some_intervals(make, broker, until, announced):
    """Also after the interval has been changed. Nothing else expires."""
    app = make(broker.port, ha=True, interval_ms=10_000)
    until(app, lambda: set(announced()) >= TOPICS)
    wanted = {"sensor/dev/temperature": 90, "button/dev/reboot": None, "number/dev/interval": None}
    assert expiries(announced) == wanted
    broker.arrived.clear()
    broker.give("inflight/dev/command/interval", b"3600000", 2)
    until(app, lambda: set(announced()) >= TOPICS)
    assert expiries(announced) == wanted | {"sensor/dev/temperature": 10_860}


def test_a_sensor_that_sleeps_announces_itself_again(make, broker):
    """At the wake that finds no session; and once a day at least, since a broker may lose retained messages alone: also
    a device that never knows the time."""
    from codes import DEEP_SLEEP

    flash = RamFlash(8, 4096)
    board = Board()
    board.clock = False
    every = len(TOPICS) - 1

    def wakes(n, sleep_ms=60_000):
        found = []
        for _ in range(n):
            broker.arrived.clear()
            make(broker.port, flash, board=board, ha=True, sleep_ms=sleep_ms).run()
            board.cause = DEEP_SLEEP
            found.append(len([m for m in broker.arrived if m.topic.startswith("homeassistant")]))
        return found

    assert wakes(5) == [every, 0, 0, 0, 0]
    broker.forget()
    assert wakes(3) == [every, 0, 0]
    found = wakes(12, 4 * 3_600_000)
    assert {*found} == {0, every} and any(found[:6]) and any(found[6:])


def test_each_report_of_a_sensor_that_sleeps_has_a_state(make, broker, announced, published, monkeypatch):
    """The newest reading, although it waited with others for the report; and when that was. It announces itself after
    power-on only."""
    from codes import DEEP_SLEEP

    monkeypatch.setattr(SleepingApp, "time", lambda self: NOON)
    flash = RamFlash(8, 4096)
    board = Board()
    for degrees in range(7):
        board.readings = [("temperature", "Cel", degrees)]
        make(broker.port, flash, board=board, ha=True, sleep_ms=60_000, report_every=3).run()
        board.cause = DEEP_SLEEP
    assert [state["readings"]["temperature"] for state in states(broker)] == [0, 3, 6]
    assert [body["v"] for body in published("telemetry")] == list(range(7))
    assert all(state["t"] > 1_700_000_000 for state in states(broker))
    assert set(announced()) == TOPICS - {"number/dev/interval"}
    assert announced()["sensor/dev/temperature"]["expire_after"] == 3 * 180 + 60
    assert len([m for m in broker.arrived if m.topic.startswith("homeassistant")]) == len(announced())
    board = Board()
    board.clock = False
    make(broker.port, flash, board=board, ha=True, sleep_ms=60_000).run()
    assert len(states(broker)) == 4 and "t" not in states(broker)[-1]


def test_announced_again_when_home_assistant_starts_and_with_each_connection(make, broker, until, announced):
    """With its start comes the state, too."""
    app = make(broker.port, ha=True, interval_ms=3_600_000)
    until(app, lambda: set(announced()) >= TOPICS and states(broker) and states(broker)[-1]["readings"])
    broker.arrived.clear()
    broker.give("homeassistant/status", b"offline", 0)
    broker.give("homeassistant/status", b"online", 0)
    until(app, lambda: set(announced()) == TOPICS and states(broker))
    assert states(broker)[-1]["readings"] == {"temperature": 21.5}
    broker.arrived.clear()
    broker.connections[-1].finish()
    until(app, lambda: set(announced()) == TOPICS)


def test_reading_that_appears_later_is_announced(make, broker, until, announced):
    app = make(broker.port, ha=True)
    until(app, lambda: set(announced()) >= TOPICS)
    app.board.readings = [("door", None, True), ("mode", None, "auto"), ("air-co2", "ppm", 500), ("salt", "ppm", 5)]
    topics = {"binary_sensor/dev/door", "sensor/dev/mode", "sensor/dev/air-co2", "sensor/dev/salt"}
    until(app, lambda: topics <= set(announced()))
    found = [announced()["sensor/dev/" + name] for name in ("air-co2", "salt")]
    assert [fields["unit_of_measurement"] for fields in found] == ["ppm", "ppm"]
    assert [fields.get("device_class") for fields in found] == ["carbon_dioxide", None]


def fake_sensor(monkeypatch, driver, *readings):
    class Driver:
        def __init__(self, fields, name):
            pass

        def read(self):
            return readings

    monkeypatch.setitem(sys.modules, "sensor_" + driver, types.SimpleNamespace(FIELDS={}, Driver=Driver))


def test_removed_when_the_sensor_is_removed(make, broker, until, announced, monkeypatch):
    """Not if it fails; all of it with another prefix."""
    flash = RamFlash(8, 4096)
    fake_sensor(monkeypatch, "one", ("attic-temperature", "Cel", 1), ("attic-humidity", "%RH", 2))
    fake_sensor(monkeypatch, "two", ("attic-2", "V", 3))
    entries = [{"driver": "one", "name": "attic"}, {"driver": "two", "name": "attic-2"}]
    attic = {"sensor/dev/attic-temperature", "sensor/dev/attic-humidity"}

    def removed(entries, ha=True):
        broker.arrived.clear()
        app = make(broker.port, flash, ha=ha, sensors=entries, interval_ms=60_000)
        prefix = "homeassistant" if ha is True else ha
        until(app, lambda: set(announced(prefix)) >= TOPICS and (len(entries) == 1 or not app.client.pending))
        app.close()
        return {topic for topic, fields in announced().items() if fields is None}

    assert removed(entries) == set() and attic | {"sensor/dev/attic-2"} <= set(announced())
    fake_sensor(monkeypatch, "two", ("attic-2", "V", OSError("no answer")))
    assert removed(entries) == set()
    assert removed(entries[1:]) == attic
    assert removed(entries[1:], "other") == TOPICS | attic | {"sensor/dev/attic-2"}


def test_switched_off_removes_all(machine, broker, announced, published):
    machine.configure(port=broker.port, ha=True, interval_ms=1000)
    machine.start()
    machine.wait_for(lambda: [topic for topic in announced() if "load" in topic])
    machine.wait_for(lambda: [topic for topic in announced() if topic == "number/box/interval"])
    machine.wait_for(lambda: [m for m in list(broker.arrived) if m.topic == "inflight/box/state" and m.payload])
    machine.kill()
    topics = set(announced())
    broker.arrived.clear()
    machine.configure(port=broker.port, interval_ms=1000)
    for removed_again in (True, True, False):
        before = len(published("status"))
        machine.start()
        machine.wait_for(announced if removed_again else lambda before=before: published("status")[before:])
        broker.give("inflight/box/command/reboot", b"", 2)
        machine.end()
        assert bool(announced()) == removed_again and set(announced().values()) <= {None}
        assert set(announced()) == (topics if removed_again else set())
        emptied = [m.payload for m in broker.arrived if m.topic == "inflight/box/state" and m.retain]
        assert emptied == ([b""] if removed_again else [])
        broker.arrived.clear()
    assert not (machine.home / "home.json").exists()
