# Tests of the project, with the firmware's own code. `inflight test` runs each function test_* on this computer.

import json
import sys


class machine:
    """In place of the hardware, which this computer has not."""

    raw = 0  # what each pin measures

    class ADC:
        def __init__(self, pin):
            pass

        def read_u16(self):
            return machine.raw

    class Pin:
        def __init__(self, number):
            pass


sys.modules["machine"] = machine  # before the first import that needs it

import config
from actuators import actuators
from rules import LIMIT, on_reading
from sensors import Sensor

with open("../config.json") as file:
    CONFIG = json.load(file)


class Relay:
    def set(self, command):
        self.command = command


def read(raw):
    """The readings of the first sensor of the configuration, while the pin measures `raw`."""
    machine.raw = raw
    sensor = Sensor(CONFIG["sensors"][0])
    sensor.start()
    return sensor()


def test_a_device_takes_the_configuration():
    assert config.check(CONFIG, "test").sensors


def test_a_reading():
    [(name, unit, value)] = read(16384)
    assert (name, unit) == ("template", "/")
    assert 0.24 < value < 0.26


def test_a_broken_wire_is_no_reading():
    for raw in (0, 65535):
        try:
            found = read(raw)
        except OSError:
            found = None
        assert found is None


def test_the_rule():
    actuators["relay"] = Relay()
    for value, command in ((LIMIT - 0.1, "on"), (LIMIT + 0.1, "off")):
        on_reading("template", value)
        assert actuators["relay"].command == command
