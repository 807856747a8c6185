"""The sleeping sensor as a process: each wake starts it, a deep sleep ends it."""

import json
import random

import paho.mqtt.client as paho
import pytest

from host_tests.broker import PATIENCE_S
from host_tests.waiting import wait_for
from tools.reference.kinds import SUBSCRIBE

RUNTIMES = "micropython-x86"
MORE_RUNTIMES = "cpython"
AGAIN = 75  # exit status of a deep sleep, which asks for a restart
SLEEP_MS = 500
KEY = 128 * "kkkl"  # no public key of anybody


def configure(machine, port, **fields):
    machine.configure(port=port, sleep_ms=SLEEP_MS, awake_ms=60_000, **fields)


def wake(machine, times=1):
    for _ in range(times):
        machine.start()
        output, status = machine.end()
        assert status == AGAIN, output


@pytest.mark.parametrize("qos", [1, 2])
def test_nothing_read_is_lost_by_killing_it(machine, broker, qos, published):
    random.seed(qos)
    configure(machine, broker.port, qos=qos, health_ms=1000)
    for _ in range(10):
        goal = len(machine.accepted()) + random.randint(1, 3)
        machine.start()
        machine.wait_for(machine.accepted, goal)
        machine.kill()
        if random.random() < 0.4:
            wake(machine)
    wake(machine)
    accepted = [seq for seq, _, _ in machine.accepted()]
    arrived = [body["seq"] for body in published()]
    assert len(accepted) >= 20 and not set(accepted) - set(arrived)
    # The journal's numbers have no gap, whatever was being written when the power was cut.
    assert sorted(set(arrived)) == list(range(max(arrived) + 1))
    twice = [m for m in broker.arrived if m.qos == 2 and [n.payload for n in broker.arrived].count(m.payload) > 1]
    assert not twice


def test_memory_survives_deep_sleep(machine, broker, published):
    configure(machine, broker.port, health_ms=1000)
    wake(machine, 6)
    first, *later = published("health")
    assert (first["reset"], first["wake"]) == ("power-on", None)
    # Two wakes between one health message and the next, at half a second each.
    assert [body["reset"] for body in later] == ["deep-sleep"] * 2
    assert all(body["wake"]["deliver"] >= 250 and body["wake"]["total"] < 60_000 for body in later)
    assert [body["state"] for body in published("status")] == ["online"] + ["asleep"] * 6
    assert [body["bt"] > 1_700_000_000 for body in published("telemetry")] == [False] + [True] * 5


def subscribed(broker):
    """How many SUBSCRIBEs came on each connection."""
    return [sum(p.kind == SUBSCRIBE for p in connection.packets) for connection in broker.connections]


def test_a_wake_subscribes_if_the_session_is_lost(machine, broker, published):
    """[MQTT-3.1.2-4] [MQTT-3.2.2-3] A session has its subscriptions: of two wakes that find it, the second one does not
    subscribe. Commands come all the same."""
    configure(machine, broker.port)
    wake(machine, 3)  # a start that is no wake, the first wake, which notes what it has subscribed to
    broker.give("inflight/box/command/ping", b"x", 2)
    wake(machine)
    broker.forget()
    wake(machine, 2)
    broker.give("inflight/box/command/ping", b"y", 2)
    wake(machine)
    assert subscribed(broker) == [1, 1, 0, 0, 1, 0, 0]
    assert [body["echo"] for body in published("reply/ping")] == ["x", "y"]


def test_after_a_connect_without_an_answer_a_wake_subscribes(machine, broker, nobody):
    """The answer may have been that the session is lost: then the broker has a new one without subscriptions. With
    updates each wake does: announcements of releases are retained, and come with each SUBSCRIBE."""
    configure(machine, broker.port)
    wake(machine, 3)
    configure(machine, nobody)
    wake(machine)
    configure(machine, broker.port)
    wake(machine, 2)
    configure(machine, broker.port, update_keys=[KEY])
    wake(machine, 2)
    assert subscribed(broker) == [1, 1, 0, 1, 0, 2, 2]


def test_mosquitto_keeps_commands_until_the_next_wake(machine, mosquitto):
    broker = mosquitto()
    heard = []
    person = paho.Client(paho.CallbackAPIVersion.VERSION2)
    person.on_message = lambda client, userdata, message: heard.append(message)
    try:
        person.connect("127.0.0.1", broker.port)
        person.subscribe("inflight/box/#", 2)
        person.loop_start()
        configure(machine, broker.port)
        wake(machine)
        for n in range(5):
            person.publish("inflight/box/command/ping", b"%d" % n, 2).wait_for_publish(PATIENCE_S)
        wake(machine, 2)
        wait_for(lambda: [m.topic for m in heard].count("inflight/box/status") >= 4, PATIENCE_S)
    finally:
        person.loop_stop()
    said = [(m.topic.removeprefix("inflight/box/"), json.loads(m.payload)) for m in heard if "command" not in m.topic]
    assert [body["echo"] for topic, body in said if topic == "reply/ping"] == list("01234")
    assert [body["state"] for topic, body in said if topic == "status"] == ["online", "asleep", "asleep", "asleep"]
    assert sum(topic == "telemetry" and "boot" not in body[0] for topic, body in said) == 3
