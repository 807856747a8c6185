"""Whether a configuration would run: all that a device makes of it is made here, with hardware that does not answer."""

import importlib
import inspect
import re
import sys
from types import ModuleType
from unittest.mock import MagicMock

from inflight import Client

_LEAST_MS = {"dht11": 1_000, "dht22": 2_000}  # between two measurements
_LIBRARIES = ("machine", "dht", "onewire", "ds18x20")  # of MicroPython


def check(config, board=None, own=()):
    """Raises ValueError if the Config `config` of the firmware cannot run on the Variant `board`, None: nobody knows
    which. own: drivers that check their entries on the device. To be called with device_code()."""
    config.sensors = [entry for entry in config.sensors or () if entry["driver"] not in own]
    config.actuators = [entry for entry in config.actuators or () if entry["driver"] not in own]
    importlib.import_module("entries").check(config, board.check_pin if board else lambda *of: None)
    will = importlib.import_module("node").will(config)
    options = {name: getattr(config, name) for name in ("user", "password", "keepalive", "protocol_level")}
    Client(config.host, config.device, will=will, buffer=bytearray(config.buffer), **options)
    names = dict.fromkeys(board.readings if board else (), "this board")
    for entry in config.sensors:
        name = entry.get("name") or entry["driver"]
        try:
            for reading in _readings(entry, name):
                if names.setdefault(reading, name) != name:
                    raise ValueError(f"{reading} is a reading of {names[reading]}, too: give it another name")
            _check_pace(config, entry)
            if board:
                board.check_entry(entry, config)
        except ValueError as e:
            raise ValueError(f"sensors: {name}: {e}") from None


def _readings(entry, name):
    """The names of what a Driver of that entry reads, as far as its code tells. Makes it, with hardware that is not
    there. ValueError."""
    sensors, changes = importlib.import_module("sensors"), importlib.import_module("changes")
    module = importlib.import_module(sensors.module_of("sensor", entry["driver"]))
    fields = sensors.checked_fields(changes.driver_fields(entry), module.FIELDS)
    hidden = {library: sys.modules.pop(library, None) for library in (*_LIBRARIES, "board")}
    sys.modules |= {library: _Absent(library) for library in _LIBRARIES}
    sys.modules["board"] = MagicMock(config_path=lambda: "/config.json")
    try:
        module.Driver(fields, name)
    except OSError:
        pass  # no chip answers
    finally:
        for library, before in hidden.items():
            del sys.modules[library]
            if before:
                sys.modules[library] = before
    ends = re.findall(r'_name \+ "(-\w+)"', inspect.getsource(module))
    return [name + end for end in ends if (entry["driver"], end) != ("bmp280", "-humidity")] or [name]


class _Absent(ModuleType):
    """A module whose classes take everything, and whose chips do not answer."""

    def __getattr__(self, name):
        if name[:2] == "__":
            raise AttributeError(name)
        found = MagicMock(name=name)
        if name == "SoftI2C":
            found.return_value.mock_add_spec(["writeto", "readfrom", "writeto_mem", "readfrom_mem"])
            for call in ("writeto", "readfrom", "writeto_mem", "readfrom_mem"):
                getattr(found.return_value, call).side_effect = OSError(5, "no chip")
        return found


def _check_pace(config, entry):
    least = _LEAST_MS.get(entry["driver"], 0)
    margin, check_ms = importlib.import_module("changes").change_fields(entry)
    for field, ms in (("interval_ms", config.interval_ms), ("check_ms", check_ms)):
        if ms < least and (margin if field == "check_ms" else not config.sleep_ms):
            raise ValueError(f"it measures each {least} ms at most: {field} is {ms}")
