"""The tutorials: their wires, their sensors with the firmware, the life of a battery, a program that is killed."""

import json
import re
import shlex
import xml.etree.ElementTree as ElementTree

import pytest

import config
import entries
from host_tests.broker import Automatic
from host_tests.docs.pages import CHECKOUT, blocks
from host_tests.docs.reader import LIMIT_S, ReplyingBroker, running
from host_tests.firmware.conftest import Machine, packs
from host_tests.waiting import wait_for
from inflight_tools.boards.images.variants import variant

RUNTIMES = "micropython-x64"
BUS = CHECKOUT / "host_tests/firmware/device_scripts/bus"


def _blocks(page, language):
    return [block.text for block in blocks(language) if block.page == CHECKOUT / "docs" / page]


START = [word for text in _blocks("start.md", "sh") for word in shlex.split(text)]
START = {"sensors": json.loads(next(word for word in START if word.startswith("sensors="))[8:])}
TANK = json.loads(_blocks("guide/battery.md", "json")[0])
TANK = {field: value for field, value in TANK.items() if not field.startswith("wifi_")}
WIRED = {  # picture: (fields of the configuration, readings of the fake hardware)
    "wiring-dht22.svg": (START, {"attic-temperature": 21.4, "attic-humidity": 40.2}),
    "wiring-battery.svg": (TANK, {"tank-010203040506": 21, "battery": 3.96}),
}


@pytest.mark.parametrize("name", WIRED)
def test_the_pins_of_a_drawing_are_those_of_the_configuration(name):
    drawing = (CHECKOUT / "docs" / name).read_text()
    assert "prefers-color-scheme: dark" in drawing
    labels = {element.text for element in ElementTree.fromstring(drawing).iter() if element.tag.endswith("}text")}
    sensors = WIRED[name][0]["sensors"]
    assert {label for label in labels if "GPIO" in label} == {f"GPIO {entry['pin']}" for entry in sensors}
    entries.check(config.check({"host": "-", "sensors": sensors}, "device"), variant("esp32").check_pin)
    assert {"3V3", "GND"} < labels


@pytest.mark.parametrize("name", WIRED)
def test_its_sensors_are_read(runtime, tmp_path, name):
    fields, expected = WIRED[name]
    shorter = {"sleep_ms": 500, "report_every": 1} if "sleep_ms" in fields else {}
    machine = Machine(tmp_path, runtime)
    machine.search.append(str(BUS))
    with Automatic() as broker:
        machine.configure(**fields | shorter | {"host": "127.0.0.1", "port": broker.port})
        machine.start("-m", "with_bus")
        try:
            is_told = lambda: [m for m in broker.arrived if m.topic.endswith("/telemetry")]  # noqa: E731
            pack = packs(wait_for(is_told, LIMIT_S, machine.kill)[0])[0]
            output, status = machine.end() if shorter else machine.kill()
        finally:
            machine.process.kill()
    readings = {record["n"]: record["v"] for record in pack if record.get("n") in expected}
    assert readings == pytest.approx(expected), output
    assert status == (75 if shorter else -9), output  # 75: deep sleep of the unix board


def test_the_life_of_a_battery():
    page = (CHECKOUT / "docs/guide/battery.md").read_text()
    names = {}
    exec(_blocks("guide/battery.md", "python")[0], names)
    rows = re.findall(r"^\| ([\d.]+) mA.*? \| (\d+) \| (\d+) \| (\d+) \|$", page, re.M)
    assert len(rows) == 3
    for asleep_ma, *days in rows:
        assert [round(names["days"](3000, float(asleep_ma), s, 3000)) for s in (60, 600, 3600)] == [*map(int, days)]


def test_a_program_that_is_killed_without_a_broker_loses_nothing(runtime, tmp_path, nobody):
    """In each of two lives it publishes; its last reading may not have reached publish()."""
    told = _blocks("guide/first-program.md", "python")[0].replace("10_000", "100")
    told = told.replace("return str(time.time())", "reading = str(time.time())\n    print(reading)\n    return reading")
    taken = []
    with ReplyingBroker() as broker:
        port, broker.port = broker.port, nobody
        for _ in range(2):
            with running(runtime, tmp_path, broker, told) as (_, output):
                wait_for(
                    lambda lines=output: len([*filter(_is_reading, lines)]) > 5, LIMIT_S, lambda lines=output: lines
                )
            taken += [line.strip().encode() for line in filter(_is_reading, output)][:-1]
        broker.port = port
        with running(runtime, tmp_path, broker, told) as (_, output):
            wait_for(lambda: {*taken} <= {*broker.payloads()}, LIMIT_S, lambda: output)


def _is_reading(line):
    return re.fullmatch(r"\d+(\.\d+)?(e\+\d+)?\n", line)
