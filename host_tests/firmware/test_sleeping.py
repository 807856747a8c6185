"""The sleeping sensor as a process: each wake starts it, a deep sleep ends it."""

import random

import pytest

from tools.reference.kinds import SUBACK, SUBSCRIBE

RUNTIMES = "micropython-x86"
MORE_RUNTIMES = "cpython"
AGAIN = 75  # exit status of a deep sleep, which asks for a restart
SLEEP_MS = 500


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
    machine.check_arrived(broker, published(), 19)


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


def test_a_wake_subscribes_if_the_session_has_something_else(machine, broker, published):
    """Of another configuration, or nothing: the broker has refused it."""
    configure(machine, broker.port)
    wake(machine, 3)
    configure(machine, broker.port, root="garden")
    wake(machine, 2)
    broker.give("garden/box/command/ping", b"x", 2)
    wake(machine)
    assert [body["echo"] for body in published("reply/ping")] == ["x"]
    broker.forget()
    broker.faults.answer = lambda raw: [raw[:4] + b"\x80" if raw[0] >> 4 == SUBACK else raw]
    wake(machine, 2)
    assert subscribed(broker) == [1, 1, 0, 1, 0, 0, 1, 1]


def test_a_message_that_is_no_command_is_told(machine, broker):
    """A session may have subscriptions that an earlier program has made."""
    configure(machine, broker.port)
    wake(machine, 3)
    broker.give("inflight/box/other", b"x", 1)
    machine.start()
    output, _ = machine.end()
    assert "no handler takes messages to inflight/box/other" in output
