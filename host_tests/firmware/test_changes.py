"""Report on change, with a broker on virtual time: a door that opens between two readings."""

import json
import sys
import types

import pytest

from host_tests.firmware.conftest import gathered
from inflight import RamFlash

DOOR = {"driver": "door", "name": "door", "report_on_change": True, "check_ms": 100}
QUIET = {"interval_ms": 3_600_000, "health_ms": 86_400_000, "sensors": [DOOR]}


class Door:
    open = False

    def read(self, name):
        return [(name, None, self.open)]


@pytest.fixture
def door(monkeypatch):
    door = Door()

    class Driver:
        def __init__(self, fields, name):
            self.read = lambda: door.read(name)

    monkeypatch.setitem(sys.modules, "sensor_door", types.SimpleNamespace(FIELDS={}, Driver=Driver))
    return door


@pytest.fixture
def run(clock, make):
    """run(app, s) runs the application for so long, in virtual time."""
    make.backoff_ms = 5_000, 60_000

    def run(app, s):
        app.client.most_ms = 500
        end = clock.now + s
        while clock.now < end:
            app.step()

    return run


def test_a_change_is_published_at_once(make, automatic, run, door):
    """A message of its own, with what has changed; the next reading at the interval has all. Home Assistant has it as
    the newest value, and rules are called with it."""
    with automatic() as broker:
        app = make(broker.port, ha=True, **QUIET | {"interval_ms": 60_000})
        run(app, 20)
        called = []
        app.rules = types.SimpleNamespace(see=called.extend, count=0)
        door.open = True
        run(app, 0.5)
        both = {"temperature": 21.5, "door": True}
        assert [values for _, values in gathered(broker).values()] == [{**both, "door": False}, {"door": True}]
        (state,) = [json.loads(m.payload) for m in broker.arrived if m.topic == "inflight/dev/state"][-1:]
        assert state["readings"] == both and called == [("door", None, True)]
        run(app, 60)
        assert [*gathered(broker).values()][2][1] == both


def test_what_a_full_journal_refused_is_published_when_there_is_space(make, automatic, run, door):
    with automatic() as broker:
        app = make(broker.port, RamFlash(5, 1024), **QUIET | {"batch": 1})
        app.client.online = False
        while not app.full:
            door.open = not door.open
            run(app, 10)
        run(app, 60)
        assert app.full > 1  # counted each time
        app.client.online = True
        run(app, 20)
        doors = [values["door"] for _, values in gathered(broker).values() if "door" in values]
        assert doors[-1] == door.open and app.client.counters()["dropped"] == 0
