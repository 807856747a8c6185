"""Fake pins for tests of sensors, and helpers that read sensors like the application."""

import sys

import telemetry
from harness import eq
from sensors import Sensor


class With:
    """`with With(machine=...)`: replaces modules of the device; None: the module is missing."""

    def __init__(self, **modules):
        self._modules = modules

    def __enter__(self):
        self._before = {}
        for name in self._modules:
            self._before[name] = sys.modules.pop(name, None)
            if self._modules[name] is not None:
                sys.modules[name] = self._modules[name]

    def __exit__(self, *_):
        for name in self._before:
            sys.modules.pop(name, None)
            if self._before[name] is not None:
                sys.modules[name] = self._before[name]


class Pin:
    """machine.Pin of a board with pins 0 to 29."""

    IN = 0
    OUT = 3
    PULL_UP = 1
    PULL_DOWN = 2
    IRQ_FALLING = 4
    IRQ_RISING = 8
    made = []
    level = 1

    def __init__(self, number, *how, value=None):
        if number != "GP4" and not (isinstance(number, int) and 0 <= number < 30):
            raise ValueError("invalid pin")
        self.number = number
        self.how = how
        self.levels = []  # of an output
        if value is not None:
            self.levels.append(value)
        Pin.made.append(self)

    def value(self, level=None):
        if level is None:
            return Pin.level
        self.levels.append(level)

    def irq(self, handler, trigger, hard=False):
        self.handler = handler
        self.trigger = trigger
        self.hard = hard


class SoftPin(Pin):
    def irq(self, handler, trigger, **more):
        if more:
            raise TypeError("extra keyword arguments given")
        Pin.irq(self, handler, trigger)


def read(errors, *entries):
    """Values of the sensors of these entries."""
    sources = [Sensor(entry) for entry in entries]
    telemetry.start(sources)
    return list(telemetry.read(sources, errors))


def fails(entry):
    """The only error of the sensor of this entry, which has no value."""
    errors = {}
    eq(read(errors, entry), [])
    eq(list(errors), [entry.get("name") or entry["driver"]])
    return list(errors.values())[0]


def works(*entries):
    errors = {}
    readings = read(errors, *entries)
    eq(errors, {})
    return readings
