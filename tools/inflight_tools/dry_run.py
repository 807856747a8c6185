"""Whether a configuration would run: all that a device makes of it is made here, with hardware that does not answer."""

import importlib
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

from inflight import Client

_LEAST_MS = {"dht11": 1_000, "dht22": 2_000}  # between two measurements
_MOST_HZ = 40_000_000  # of PWM on any board


def problems(config, board=None, own=()):
    """Yields a text for each reason why the Config `config` of the firmware cannot run on the Variant `board`, None:
    nobody knows which. own: drivers that check their entries on the device. To be called with device_code()."""
    entries = [(kind, entry) for kind in ("sensor", "actuator") for entry in getattr(config, f"{kind}s") or ()]
    config.sensors, config.actuators = [], []  # from here those that are right so far
    names = dict.fromkeys(board.readings if board else (), "this board")
    checks = [partial(_make_client, config), partial(_check_entries, config, board)]
    checks += [partial(_check_entry, config, board, names, *one) for one in entries if one[1]["driver"] not in own]
    for check in checks:
        try:
            check()
        except ValueError as e:
            yield str(e)


def _make_client(config):
    will = importlib.import_module("node").will(config)
    options = {name: getattr(config, name) for name in ("user", "password", "keepalive", "protocol_level")}
    Client(config.host, config.device, will=will, buffer=bytearray(config.buffer), **options)


def _check_entry(config, board, names, kind, entry):
    kept = getattr(config, f"{kind}s")
    kept.append(entry)
    try:
        _check_entries(config, board)
    except ValueError:
        kept.pop()
        raise
    name = entry.get("name") or entry["driver"]
    try:
        readings = _readings(kind, entry, name)
        if kind == "sensor":
            for reading in readings:
                if names.setdefault(reading, name) != name:
                    raise ValueError(f"{reading} is a reading of {names[reading]}, too: give it another name")
            _check_pace(config, entry)
            if board:
                board.check_entry(entry, config)
    except ValueError as e:
        raise ValueError(f"{kind}s: {name}: {e}") from None


def _check_entries(config, board):
    def check_pin(number, driver, field):
        if board:
            board.check_pin(number, driver, field)
        elif type(number) not in (int, str):
            raise ValueError(f"{field}: write the number of a pin, or its name in quotes")

    importlib.import_module("entries").check(config, check_pin)


def _readings(kind, entry, name):
    """The names of what a Driver of that entry reads, as far as it tells. Makes it, with hardware that is not there.
    ValueError."""
    sensors = importlib.import_module("sensors")
    if kind == "sensor":
        entry = importlib.import_module("changes").driver_fields(entry)
    else:
        entry = importlib.import_module("actuators").of_driver(entry)[0]
    module = importlib.import_module(sensors.module_of(kind, entry["driver"]))
    fields = sensors.checked_fields(entry, module.FIELDS)
    hidden = {library: sys.modules.pop(library, None) for library in _HARDWARE}
    sys.modules |= _HARDWARE
    driver = object.__new__(module.Driver)
    try:
        driver.__init__(fields, name)
    except OSError:
        pass  # no chip answers
    finally:
        for library, before in hidden.items():
            del sys.modules[library]
            if before:
                sys.modules[library] = before
    return [name + end for end in getattr(driver, "READINGS", ("",))]


def _check_pace(config, entry):
    least = _LEAST_MS.get(entry["driver"], 0)
    margin, check_ms = importlib.import_module("changes").change_fields(entry)
    for field, ms in (("interval_ms", config.interval_ms), ("check_ms", check_ms)):
        if ms < least and (margin if field == "check_ms" else not config.sleep_ms):
            raise ValueError(f"it measures each {least} ms at most: {field} is {ms}")


# --- the modules of MicroPython that drivers use ---


class _Pin:
    IN = OUT = PULL_UP = PULL_DOWN = IRQ_FALLING = IRQ_RISING = 0

    def __init__(self, *of, **more):
        pass

    def value(self):
        return 1

    irq = __init__


class _Pwm(_Pin):
    def freq(self, hz):
        if not 0 < hz <= _MOST_HZ:
            raise ValueError(f"write 1 to {_MOST_HZ} Hz")


class _Bus(_Pin):
    def writeto(self, *of):
        raise OSError("no chip answers")

    readfrom = writeto_mem = readfrom_mem = writeto


_HARDWARE: dict[str, Any] = {
    "machine": SimpleNamespace(Pin=_Pin, ADC=_Pin, PWM=_Pwm, SoftI2C=_Bus),
    "dht": SimpleNamespace(DHT11=_Pin, DHT22=_Pin),
    "onewire": SimpleNamespace(OneWire=_Pin),
    "ds18x20": SimpleNamespace(DS18X20=_Pin),
    "neopixel": SimpleNamespace(NeoPixel=_Pin),
    "board": SimpleNamespace(config_path=lambda: "/none/config.json"),
}
