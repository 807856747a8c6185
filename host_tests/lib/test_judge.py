"""Tests of the scripted broker: it detects violations, and reports them to the test."""

import contextlib
import socket

import pytest

from host_tests.broker import PATIENCE_S, Broker
from tools.reference.kinds import PUBLISH
from tools.reference.wire import Violation, packet, string

GOOD_CONNECT = packet(0x10, string("MQTT") + b"\x04\x02\x00\x3c" + string("dev"))


@pytest.fixture
def broker():
    """One with a thread of its own: talk() waits in real time."""
    with contextlib.closing(Broker()) as one:
        yield one


def talk(port, *data):
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.settimeout(PATIENCE_S)
        for part in data:
            sock.sendall(part)
        try:
            while sock.recv(1000):
                pass
        except OSError:
            pass


def test_script_failure_is_the_tests_failure(broker):
    with pytest.raises(Violation, match="client_id"), broker.play(lambda b: b.called(client_id="another")):
        talk(broker.port, GOOD_CONNECT)


def test_script_failure_comes_before_the_clients(broker):
    def script(b):
        b.accept()
        b.expect(PUBLISH)

    with pytest.raises(Violation, match="PUBLISH expected"), broker.play(script):
        talk(broker.port, GOOD_CONNECT)
        raise OSError("the connection was reset")


@pytest.mark.parametrize("client_kind", ["blocking", "asyncio"])
def test_a_failed_script_ends_the_clients_wait(virtual, make):
    """On virtual time it is told at once, not when the client gives up, or never."""

    def script(b):
        b.welcome()
        b.expect(PUBLISH, topic="another")

    with pytest.raises(Violation, match="topic"), virtual.play(script):
        client = make(virtual.port)
        client.connect()
        client.publish("t", b"x")
        client.run_for(60_000)
