"""Devices at a running Home Assistant: `make test-home-assistant`."""

import datetime
import json
import re
import struct
import time
import types

import pytest
from typer.testing import CliRunner

import node
from discovery import _UNITS
from host_tests.clients import cut_power
from host_tests.firmware.test_home import ACTUATORS, machine_module  # noqa: F401 (a fixture)
from host_tests.firmware.test_home_assistant import NEWER, READINGS
from host_tests.waiting import wait_for
from inflight_tools.fleet.commands import app as fleet
from inflight_tools.fleet.home_assistant import late_hours as statistics
from tools import pictures
from tools.demo.downstream import Downstream
from tools.peers import chromium, mosquitto
from tools.peers.home_assistant import HomeAssistant
from tools.setup.common import CHECKOUT

pytestmark = pytest.mark.long("INFLIGHT_HOME_ASSISTANT")
PATIENCE_S = 240
HOUR_S = 3600
# {unit of SenML: [unit, device class]}
OURS = {}
for kind, *units in map(str.split, _UNITS.strip().split("\n")):
    OURS |= {text.partition("=")[0]: [text.rpartition("=")[2], kind] for text in units}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with mosquitto.Mosquitto(tmp_path_factory.mktemp("mosquitto")) as broker:
        yield broker


@pytest.fixture(scope="module")
def core(tmp_path_factory, broker):
    with HomeAssistant(tmp_path_factory.mktemp("home")) as core:
        core.use_broker(broker.port)
        yield core


@pytest.fixture
def home(core):
    """Its API. Home Assistant complains of nothing that devices announce and publish."""
    before = len(core.file.read_text())
    with core.api() as home:
        yield home
    said = core.file.read_text()[before:].splitlines()
    known = "mqtt.client]", *(f"'{unit}' which is not a valid unit" for unit in NEWER)  # the first: the broker is gone
    assert [line for line in said if not any(text in line for text in known)] == []


@pytest.fixture
def run(until, home):
    """run(app, condition) runs the application until the condition is true, which sees Home Assistant as it is."""

    def look(condition):
        home.look()
        return condition()

    return lambda app, condition: until(app, lambda: look(condition))


def test_all_is_there_with_name_unit_class_and_the_newest_reading(make, broker, home, run, machine_module):  # noqa: F811
    app = make(broker.port, device="attic", ha=True, actuators=ACTUATORS, interval_ms=60_000)
    app.board.readings = READINGS
    expected = {}
    for name, unit, value in READINGS:
        kind, state = ("binary_sensor", "on" if value else "off") if isinstance(value, bool) else ("sensor", str(value))
        about = [f"attic {name}", *OURS.get(unit, [unit, "carbon_dioxide" if name == "air-co2" else None])]
        expected[f"{kind}.attic_{re.sub('[^a-z0-9]', '_', name)}"] = [state, *about]
    run(app, lambda: {one: home.state(one) for one in expected} == {one: row[0] for one, row in expected.items()})
    for entity, row in expected.items():
        row[2] = None if row[2] in ("/", "count") else row[2]  # numbers without a unit
        about = home.states[entity]["attributes"]
        assert [about.get(field) for field in ("friendly_name", "unit_of_measurement", "device_class")] == row[1:]
    (device,) = (one for one in home.ask("config/device_registry/list") if one["name"] == "attic")
    assert (device["identifiers"], device["manufacturer"]) == ([["mqtt", "attic"]], "Inflight")
    assert (device["model"], device["sw_version"]) == (app.board.NAME, app.version)


def test_commands_reach_the_device(make, broker, home, run, machine_module):  # noqa: F811
    app = make(broker.port, device="shed", ha=True, actuators=ACTUATORS, interval_ms=60_000)
    pump, fan, lamp, every = "switch.shed_pump", "number.shed_fan", "light.shed_lamp", "number.shed_interval"
    run(app, lambda: [home.state(one) for one in (pump, fan, lamp)] == ["off", "0", "off"] and home.state(every))
    home.do("switch.turn_on", pump)  # its state is what the device answers
    home.do("number.set_value", fan, value=40)
    home.do("light.turn_on", lamp, rgb_color=[255, 8, 0])
    home.do("number.set_value", every, value=5000)
    run(app, lambda: [home.state(one) for one in (pump, fan, lamp)] == ["on", "40", "on"] and app.telemetry.ms == 5000)
    assert home.states[lamp]["attributes"]["rgb_color"] == [255, 8, 0]
    home.do("button.press", "button.shed_restart")
    run(app, lambda: app.stopping)


def test_a_sensor_that_fails_a_device_that_is_gone_and_one_that_is_silent(make, broker, home, run):
    app = make(broker.port, device="barn", ha=True)
    app.board.readings = [("air", "Cel", 20.5), ("soil", "Cel", 9)]
    air, soil, uptime = "sensor.barn_air", "sensor.barn_soil", "sensor.barn_uptime"
    run(app, lambda: (home.state(air), home.state(soil)) == ("20.5", "9"))
    app.board.readings = [("air", "Cel", 21), ("soil", "Cel", OSError("no answer"))]
    run(app, lambda: (home.state(air), home.state(soil)) == ("21", "unavailable"))
    cut_power(app.client)  # the broker publishes the will
    home.wait(lambda: {home.state(one) for one in (air, soil, uptime)} == {"unavailable"})
    silent = make(broker.port, device="barn", ha=True)
    silent.board.readings = [("air", "Cel", 22)]
    run(silent, lambda: home.state(air) == "22" and home.state(uptime) != "unavailable")
    home.wait(lambda: home.state(air) == "unavailable")  # after three intervals and a minute
    assert home.state(uptime) != "unavailable"


def test_home_assistant_that_starts_again_has_the_newest_readings_of_what_is_there(make, broker, core, until, tmp_path):
    """All of it is retained."""
    apps = [make(broker.port, device=name, ha=True, interval_ms=3_600_000) for name in ("loft", "cellar")]
    entities = "sensor.loft_temperature", "sensor.cellar_temperature"
    (tmp_path / "flash").mkdir()
    apps[1].board.path = tmp_path / "flash/config.json"  # each has a file of what it has announced
    with core.api() as home:
        for app, entity in zip(apps, entities, strict=True):
            until(app, lambda entity=entity: home.look() or home.state(entity) == "21.5")
        cut_power(apps[1].client)
        home.wait(lambda: home.state(entities[1]) == "unavailable")
    core.restart()
    with core.api() as home:
        until(apps[0], lambda: home.look() or [home.state(one) for one in entities] == ["21.5", "unavailable"])


def utc(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()


def of_hours(home, entity, begin, **more):
    """[(hours after `begin`, mean, least, most)] of its statistics in the six hours from then on."""
    asked = {"start_time": utc(begin), "end_time": utc(begin + 6 * HOUR_S), "period": "hour", **more}
    rows = home.ask("recorder/statistics_during_period", **asked, statistic_ids=[entity]).get(entity, [])
    return [((row["start"] / 1000 - begin) / HOUR_S, row["mean"], row["min"], row["max"]) for row in rows]


def becomes(home, entity, begin, expected, **more):
    """Home Assistant answers before it has written."""
    wait_for(
        lambda: of_hours(home, entity, begin, **more) == expected,
        PATIENCE_S,
        lambda: of_hours(home, entity, begin, **more),
    )


def test_what_waited_out_an_outage_is_in_the_statistics_at_its_true_time_alone(
    make, broker, core, home, run, until, tmp_path, monkeypatch
):
    begin = time.time() // HOUR_S * HOUR_S - 6 * HOUR_S
    clock = types.SimpleNamespace(now=begin + 60)
    monkeypatch.setattr(node, "time", types.SimpleNamespace(time=lambda: clock.now))
    temperature = "sensor.tank_temperature"
    with Downstream(tmp_path / "pipeline", broker.port, "inflight") as pipeline:
        app = make(broker.port, device="tank", ha=True)
        app.board.readings = [("temperature", "Cel", 20)]
        run(app, lambda: home.state(temperature) == "20" and not app.client.pending)
        broker.stop()  # it keeps the session of the collector
        until(app, lambda: not app.client.connected)
        for minute, degrees in ((70, 22), (110, 24), (130, 30), (250, 10), (260, 12)):
            clock.now = begin + 60 * minute
            app.board.readings = [("temperature", "Cel", degrees)]
            before = len(app.board.log)
            until(app, lambda before=before: "telemetry" in [topic for _, _, topic in app.board.log[before:]])
        clock.now = time.time()
        app.board.readings = [("temperature", "Cel", 25.5)]
        home.wait(lambda: home.state(temperature) == "unavailable")
        home.changes.clear()
        broker.start()
        run(app, lambda: home.state(temperature) == "25.5" and not app.client.pending)
        pipeline.finish()
    # With the broker Home Assistant has what was the newest reading before the outage.
    assert {state for entity, state in home.changes if entity == temperature} <= {"unavailable", "20", "25.5"}
    assert of_hours(home, temperature, begin) == []
    (tmp_path / "token").write_text(core.token)
    command = ["history", "--home-assistant", core.url, "--token-file", str(tmp_path / "token"), "--json"]
    for _ in range(2):  # again is no harm
        done = CliRunner().invoke(fleet, [*command, "--plain-http", "--data", str(pipeline.folder)])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["hours"][temperature] == 4
    becomes(home, temperature, begin, [(0, 20, 20, 20), (1, 23, 22, 24), (2, 30, 30, 30), (4, 11, 10, 12)])


def test_an_hour_takes_the_place_of_what_home_assistant_has_of_it(make, broker, core, home, run):
    app = make(broker.port, device="yard", ha=True)
    app.board.readings = [("temperature", "Cel", 20)]
    entity = "sensor.yard_temperature"
    run(app, lambda: home.state(entity) == "20")
    changed = datetime.datetime.fromisoformat(home.states[entity]["last_changed"]).timestamp()
    hour = changed // HOUR_S * HOUR_S
    home.do("compile.run", start=utc(hour + 55 * 60))
    becomes(home, entity, hour, [(0, 20, 20, 20)])
    with statistics.HomeAssistant(core.url, core.token) as importer:
        found = {"yard-temperature": ("°C", [statistics.Hour(hour, 12.0, 10.0, 20.0, 12.0, 12.0, 0.0, True)])}
        assert statistics.write(importer, found) == ({entity: 1}, {})
    becomes(home, entity, hour, [(0, 12, 10, 20)])


def test_statistics_in_the_unit_that_somebody_chose(make, broker, core, home, run):
    """Home Assistant's own conversion back tells what was measured."""
    app = make(broker.port, device="ranch", ha=True)
    app.board.readings = READINGS
    choices = {"°C": ["°F", "K"], **statistics.UNITS}
    del choices["Wh"], choices["kWh"]  # meters have a sum, and no mean
    entities = {row[0]: f"sensor.ranch_in_{n}" for n, row in enumerate(OURS.values()) if row[0] in choices}
    assert entities.keys() == choices.keys()
    run(app, lambda: all(home.state(entity) for entity in entities.values()))
    hour = time.time() // HOUR_S * HOUR_S - 6 * HOUR_S

    def cleared(entity):
        """Without the statistics that Home Assistant may just have made in the unit before: their class and unit."""
        home.ask("recorder/clear_statistics", statistic_ids=[entity])
        (about,) = home.ask("recorder/get_statistics_metadata", statistic_ids=[entity])
        return about["unit_class"], about["statistics_unit_of_measurement"]

    with statistics.HomeAssistant(core.url, core.token) as importer:
        for ours, entity in entities.items():
            unique = f"ranch-in-{entity.rpartition('_')[2]}"
            for theirs in choices[ours]:
                chosen = {"options_domain": "sensor", "options": {"unit_of_measurement": theirs}}
                home.ask("config/entity_registry/update", entity_id=entity, **chosen)
                home.wait(lambda e=entity, u=theirs: home.states[e]["attributes"].get("unit_of_measurement") == u)
                kind = wait_for(lambda e=entity, u=theirs: (found := cleared(e))[1] == u and found[0], PATIENCE_S)
                becomes(home, entity, hour, [])
                found = {unique: (ours, [statistics.Hour(hour, 12.0, -3.0, 25.0, 12.0, 12.0, 0.0, True)])}
                assert statistics.write(importer, found) == ({entity: 1}, {})
                becomes(home, entity, hour, [pytest.approx((0, 12, -3, 25))], units={kind: ours})


@pytest.mark.skipif(bool(chromium.unavailable()), reason=chromium.unavailable() or "there is one")
def test_the_picture_shows_a_device(tmp_path):
    pictures.main(["home-assistant"], tmp_path)
    for file in (tmp_path / "home-assistant.png", CHECKOUT / "docs/home-assistant.png"):
        assert struct.unpack(">II", file.read_bytes()[16:24]) == pictures.HOME_ASSISTANT_PX
        assert file.stat().st_size <= 50_000
