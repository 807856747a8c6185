"""A sensor at cloud brokers, an hour of virtual time: the firmware on the unix board, with its own certificate."""

import contextlib
import importlib
import json
import os
import random
import re
import sys
import types
from dataclasses import replace

import pytest
import trustme

import assemble
import log
from host_tests.clients import cut_power
from host_tests.clouds import AWS_IOT_CORE, EVENT_GRID, Cloud, certified
from host_tests.firmware.conftest import Pin, packs
from inflight.compat import ticks_ms

HOUR_S = 3600
RULES = {"aws": AWS_IOT_CORE, "event-grid": EVENT_GRID}


class Sensor:
    """A unix board in `folder`. `accepted()`: the sequence numbers of the messages that it accepted."""

    def __init__(self, folder, port, **fields):
        self.folder = folder
        actuators = [{"driver": "switch", "pin": 5, "name": "pump"}]
        given = {"host": "localhost", "port": port, "actuators": actuators, **fields}
        (folder / "config.json").write_text(json.dumps(given))
        self.start()

    def start(self):
        sys.modules.pop("board", None)
        self.app = assemble.build(importlib.import_module("board"), ticks_ms())

    def end(self):
        cut_power(self.app.client)
        self.app.flash.close()

    def cut_power(self):
        self.end()
        self.start()

    def accepted(self):
        return [int(line.split()[0]) for line in (self.folder / "accepted").read_text().splitlines()]


@pytest.fixture
def sensor(tmp_path, clock, monkeypatch):
    """sensor(rules, ...): a stand-in, and a sensor whose configuration has these fields."""
    for name, value in (("HOME", tmp_path), ("DEVICE_ID", "attic"), ("ACCEPTED_LOG", tmp_path / "accepted")):
        monkeypatch.setenv(f"INFLIGHT_{name}", str(value))
    monkeypatch.setattr("atexit.register", lambda _: None)
    monkeypatch.setitem(sys.modules, "machine", types.SimpleNamespace(Pin=Pin))
    mask = os.umask(0o077)
    random.seed(1)
    with contextlib.ExitStack() as stack:

        def made(rules, **fields):
            ca = trustme.CA()
            broker = stack.enter_context(Cloud(clock, ca, rules))
            sensor = Sensor(tmp_path, broker.port, **certified(ca, tmp_path, "attic"), **fields)
            stack.callback(sensor.end)
            return broker, sensor

        yield made
    os.umask(mask)
    sys.modules.pop("board", None)


def bodies(broker, topic):
    """{sequence number: body} of the messages to this topic: one may come twice at QoS 1."""
    found = {}
    for m in broker.arrived:
        if m.topic == topic:
            for body in packs(m):
                body = body[0] if isinstance(body, list) else body
                assert found.setdefault(body["seq"], body) == body
    return found


@pytest.mark.parametrize("rules, level", [("aws", 4), ("event-grid", 5)])
def test_a_sensor_lives_there_for_an_hour(sensor, clock, rules, level):
    broker, device = sensor(RULES[rules], qos=1, protocol_level=level)
    began = clock.now
    faults = {7: broker.cut, 15: device.cut_power, 23: broker.cut, 41: broker.cut, 42: device.cut_power}
    minute = 0
    while clock.now < began + HOUR_S or device.app.client.pending:
        device.app.step()
        if (clock.now - began) // 60 > minute and minute < 58:
            minute += 1
            broker.give(f"inflight/attic/command/actuator/pump@{minute}", b"toggle", 1)
            faults.get(minute, lambda: None)()
    assert broker.closed == [] and len(broker.connections) == 6
    accepted = device.accepted()
    numbers = {number for topic in {m.topic for m in broker.arrived} for number in bodies(broker, topic)}
    assert numbers == set(accepted) == set(range(len(accepted)))
    assert len(bodies(broker, "inflight/attic/telemetry")) > 350
    # Each command was executed once, though AWS repeats some, and connections broke.
    replies = bodies(broker, "inflight/attic/reply/actuator/pump").values()
    assert sorted(reply["number"] for reply in replies if "repeated" not in reply) == [*range(1, minute + 1)]
    assert any("repeated" in reply for reply in replies) == (rules == "aws")
    assert Pin.level == minute % 2
    assert all(m.qos < 2 for m in broker.arrived)


def test_without_a_highest_qos_the_subscription_has_no_answer(sensor, clock):
    """Readings arrive, since nothing else is wrong; the device is never online, and executes nothing."""
    broker, device = sensor(AWS_IOT_CORE)
    broker.give("inflight/attic/command/ping@1", b"", 1)
    end = clock.now + 100
    while clock.now < end:
        device.app.step()
    assert bodies(broker, "inflight/attic/telemetry")
    assert not bodies(broker, "inflight/attic/status") and not bodies(broker, "inflight/attic/reply/ping")
    assert "timed out waiting for SUBACK" in log.text


def run_until(clock, device, condition, most_s=3600):
    end = clock.now + most_s
    while not condition():
        assert clock.now < end
        device.app.step()


@pytest.mark.parametrize("command", ["retry", "discard"])
def test_what_a_broker_does_not_take_is_in_health_and_commands_end_it(sensor, clock, command):
    """A broker that takes no topics as long as that of one reply."""
    broker, device = sensor(replace(AWS_IOT_CORE, topic=48), qos=1)
    topic = "inflight/attic/reply/" + "x" * 40

    def health():
        """The errors in each message, without those of the machine's own sensors."""
        found = [body["errors"] for _, body in sorted(bodies(broker, "inflight/attic/health").items())]
        return [{name: text for name, text in errors.items() if " " in name} for errors in found]

    def replies(name):
        return list(bodies(broker, f"inflight/attic/reply/{name}").values())

    run_until(clock, device, health)
    assert health() == [{}]
    broker.give("inflight/attic/command/" + "x" * 40, b"", 0)  # else it comes again with each connection
    run_until(clock, device, lambda: health()[-1])
    ((name, text),) = health()[-1].items()
    mid = int(name.removeprefix("message "))
    number, size, told = re.fullmatch(
        r"set aside: it ended connections, number (\d+), (\d+) bytes to (.*)", text
    ).groups()
    assert told == "reply/" + "x" * 40 and int(size) > 100
    assert int(number) not in {one for m in broker.arrived for one in bodies(broker, m.topic)}

    broker.give("inflight/attic/command/discard", b"%d" % (mid + 1), 1)
    run_until(clock, device, lambda: replies("discard"))
    assert "health lists them" in replies("discard")[0]["error"]
    broker.rules = AWS_IOT_CORE  # takes it now
    broker.give(f"inflight/attic/command/{command}", b"%d" % mid, 1)
    soon = 10
    run_until(clock, device, lambda: replies(command)[-1:] and replies(command)[-1]["ok"], soon)
    run_until(clock, device, lambda: not device.app.client.pending, soon)
    assert len(bodies(broker, topic)) == (command == "retry")
    before = len(health())
    run_until(clock, device, lambda: len(health()) > before)
    assert health()[-1] == {}
