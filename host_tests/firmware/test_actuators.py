"""Actuators of the application, with a broker: commands, states, and power cuts at every write."""

import functools
import json
import sys
import time
import types
from unittest.mock import Mock

import pytest

import actuators
import files
from host_tests.broker import PATIENCE_S, Automatic
from host_tests.clients import cut_power
from host_tests.firmware.conftest import Pin
from inflight import RamFlash
from nor import PowerCut
from tools.reference.server import Session

files_write = files.write
PUMP = {"driver": "switch", "pin": 5, "name": "pump"}


@pytest.fixture(autouse=True)
def pins(monkeypatch):
    monkeypatch.setitem(sys.modules, "machine", types.SimpleNamespace(Pin=Pin))
    monkeypatch.setattr(Pin, "level", 0)


@pytest.fixture
def states(published):
    """The published states of the pump, each once: a message can arrive twice at QoS 1."""

    def run():
        return [body["state"] for _, body in sorted({body["seq"]: body for body in published("actuator/pump")}.items())]

    return run


class Power:
    """Cuts the power instead of write number `at`."""

    def __init__(self, at):
        self.at = at
        self.writes = 0

    def write(self, do, *args):
        self.writes += 1
        if self.writes == self.at:
            raise PowerCut
        return do(*args)


class Flash(RamFlash):
    """Counts programs and erases as writes. Written like flash: records have checksums."""

    volatile = False
    power = Power(0)

    def program(self, *args):
        return self.power.write(super().program, *args)

    def ioctl(self, op, arg):
        return self.power.write(super().ioctl, op, arg) if op == 6 else super().ioctl(op, arg)


class Toggled:
    """A device that is toggled, with a broker of its own; the power is cut once."""

    def __init__(self, make, monkeypatch, broker, power):
        self.broker = broker
        self.flash = Flash(4, 1024)
        self.start = functools.partial(make, broker.port, self.flash, actuators=[PUMP], interval_ms=60_000)
        self.app = self.start()
        self.run(lambda: broker.sessions and not self.app.client.pending)  # the birth is not what is cut
        self.flash.power = power
        write = functools.partial(power.write, files_write)
        monkeypatch.setattr(actuators, "write", write)
        monkeypatch.setattr(files, "write", write)  # of modules that are loaded for each command
        monkeypatch.setattr(Pin, "value", lambda _, level: power.write(setattr, Pin, "level", int(level)))

    def run(self, condition):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end
            self.app.client.run_for(1)

    def is_done(self):
        (session,) = self.broker.sessions.values()
        client = self.app.client
        return client.connected and not (self.broker._gifts or session.flight or session.queue or client.pending)

    def toggle(self, number=None):
        name, qos = ("pump", 2) if number is None else (f"pump@{number}", 1)
        self.broker.give(f"inflight/dev/command/actuator/{name}", b"toggle", qos)
        try:
            self.run(self.is_done)
        except PowerCut:
            Pin.level = 0
            cut_power(self.app.client)
            self.app = self.start()
            self.run(self.is_done)


def one_id(session):
    """Session.dequeue() of a broker that uses the Message ID of a message again when that is complete."""
    if not session.flight:
        session.last_mid = 0
    return Session.dequeue(session)


@pytest.mark.parametrize("how", ["new-ids", "same-id", "numbered"])
def test_a_command_is_executed_once_whatever_write_the_power_cuts(make, monkeypatch, how):
    """At QoS 2, also if the broker uses Message IDs again; and a numbered one at QoS 1."""
    at = 0
    power = Power(0)
    while power.writes >= at:
        at += 1
        power = Power(at)
        for name in ("actuators.json", "executed"):
            (make.path.parent / name).unlink(missing_ok=True)
        with Automatic() as broker, monkeypatch.context() as patch:
            if how == "same-id":
                patch.setattr(broker.server.session, "dequeue", one_id)
            device = Toggled(make, patch, broker, power)
            for number, level in ((7, 1), (4294967295, 0), (1, 1)):
                for _ in range(1 + (how == "numbered")):  # its sender has had no answer
                    device.toggle(number if how == "numbered" else None)
                    assert (Pin.level, device.app.actuators.states["pump"]["state"] == "on") == (level, level), at
            replies = [json.loads(m.payload) for m in broker.arrived if "/reply/" in m.topic]
            assert all(reply["ok"] for reply in replies)
            assert how != "numbered" or {reply["number"] for reply in replies} == {1, 7, 4294967295}
            cut_power(device.app.client)
    assert at > 20


def test_a_command_that_came_before_the_power_was_cut_may_come_again_behind_another(make, monkeypatch):
    """No broker need keep the order of messages over a connection that broke."""
    with Automatic() as broker, monkeypatch.context() as patch:
        power = Power(0)
        device = Toggled(make, patch, broker, power)
        device.toggle(1)
        # As a power cut leaves it that comes before the number was written down.
        (make.path.parent / "executed").unlink()
        cut_power(device.app.client)
        device.app = device.start()
        device.toggle(2)
        device.toggle(1)
        assert Pin.level == 0
        cut_power(device.app.client)


def test_a_numbered_command_that_failed_may_be_sent_again(make, broker, until, published, monkeypatch):
    """Behind a rule, too, whose state is that of no command."""
    app = make(broker.port, actuators=[PUMP], interval_ms=60_000)
    actuators.actuators["pump"].set("on")

    def reply_to(text, n):
        broker.give("inflight/dev/command/actuator/pump@3", text, 1)
        return until(app, lambda: published("reply/actuator/pump")[n - 1 :])[0]

    with monkeypatch.context() as patch:
        patch.setattr(Pin, "value", Mock(side_effect=OSError(5, "EIO")))
        reply = reply_to(b"off", 1)
        assert not reply["ok"] and "EIO" in reply["error"]
    reply = reply_to(b"off", 2)
    assert (reply["state"], reply["number"], Pin.level) == ("off", 3, 0)
