"""firmware/README.md against the code: every field with its default, every driver with its fields."""

import importlib
import json
import re
from pathlib import Path

import config
import sensors

FOLDER = Path(config.__file__).parent
README = (FOLDER / "README.md").read_text()


def rows(title):
    """[(cells of the first column that are code, second column, third)] of the table below this title."""
    part = README.split(f"\n## {title}\n")[1].split("\n## ")[0]
    table = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`([^`]+)`", cells[0]), *cells[1:]) for cells in table]


def test_every_field_of_the_configuration_is_explained():
    told = [name for names, *_ in rows("Configuration") for name in names]
    assert sorted(told) == sorted([*config._NUMBERS, *config._TEXTS, *config._LISTS])


def test_defaults_are_those_of_the_code():
    for names, default, _ in rows("Configuration"):
        for name in names:
            if name in config._NUMBERS and name != "port":
                assert default == str(config._NUMBERS[name][0]), name
            text = config._TEXTS.get(name)
            if text == config.REQUIRED:
                assert default == "needed", name
            elif text:
                assert default == f"`{text}`", name


def test_every_driver_is_explained_with_its_fields():
    told = {}
    for names, fields, _ in rows("Sensors"):
        told |= dict.fromkeys(names, set(re.findall(r"`([^`]+)`", fields)))
    assert sorted(told) == sensors._KNOWN.split(", ")
    for driver, fields in told.items():
        module = importlib.import_module("sensor_" + sensors._SAME.get(driver, driver))
        assert fields == set(module.FIELDS), driver


def test_every_driver_that_is_there_is_known():
    modules = {sensors._SAME.get(name, name) for name in sensors._KNOWN.split(", ")}
    assert modules == {path.stem.removeprefix("sensor_") for path in FOLDER.glob("sensor_*.py")}


def test_the_example_is_a_configuration():
    example = re.search(r"```json\n(.+?)```", README, re.S)[1]
    given = json.loads(example)
    assert len(config.check(given, "device").sensors) == 4
    for entry in given["sensors"]:
        module = importlib.import_module("sensor_" + sensors._SAME.get(entry["driver"], entry["driver"]))
        assert set(sensors._fields(entry, module.FIELDS)) == {*module.FIELDS, "driver"}
