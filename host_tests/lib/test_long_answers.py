"""Answers of a broker of level 5 that are longer than the half of the buffer that receives."""

import pytest

from inflight import ConnectRefused
from inflight.level5.authentication import Authentication
from inflight.session.refused import Disconnected
from tools.reference.kinds import AUTH
from tools.reference.properties import block
from tools.reference.wire import auth, connack, disconnect, publish

USER = [(0x26, ("name", "v" * 250))] * 3


def test_connack(broker, make):
    """[MQTT5-3.2.2-15] [MQTT5-3.2.2-21] The connection stands, and what the broker limits is known."""
    client = make(broker.port, protocol_level=5)

    def script(b):
        b.welcome(0, ((0x27, 500), *USER, (0x13, 40), (0x1F, "long " * 100)))
        b.answer_ping()
        b.goodbye()

    with broker.play(script):
        client.connect()
        assert (client.session.maximum_out, client.session.keep_alive) == (500, 30_000)
        client.ping()
        client.disconnect()


def test_connection_refused(broker, make):
    """[MQTT5-3.2.2-7] With its code, and the reason if that is short."""
    client = make(broker.port, protocol_level=5, reconnect=False)

    def script(b):
        for reason in ("go away", "go away " * 100):
            b.called()
            b.send(connack(0, 0x87, block(*USER, (0x1F, reason))))
            b.expect_close()

    with broker.play(script):
        for told in (True, False):
            with pytest.raises(ConnectRefused) as caught:
                client.connect()
            assert caught.value.code == 0x87 and ("go away" in str(caught.value)) == told


def test_authentication(broker, make):
    """[MQTT5-4.12.0-3] The data of an AUTH arrives, whatever stands around it."""
    said = []

    def answer(data):
        said.append(data)
        return b"me"

    client = make(broker.port, protocol_level=5, auth=Authentication("M", answer))

    def script(b):
        b.called()
        b.send(auth(0x18, block((0x15, "M"), *USER, (0x1F, "x" * 300), (0x16, b"who?"), *USER)))
        b.expect(AUTH)
        b.send(connack(0, 0, block((0x15, "M"), *USER)))
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.disconnect()
    assert said[-1] == b"who?"


def test_disconnect(broker, make):
    """[MQTT5-3.14.2-1] Its code counts; a server reference is told if it is short."""
    ended = []
    client = make(broker.port, protocol_level=5, reconnect=False, on_disconnect=ended.append)

    def script(b):
        b.welcome()
        b.send(disconnect(0x9C, block(*USER, (0x1C, "there"), (0x1F, "x" * 1000))))
        b.expect_close()

    with broker.play(script), pytest.raises(Disconnected):
        client.connect()
        while not ended:
            client.run_for(100)
    assert (ended[0].code, ended[0].reason, ended[0].reference) == (0x9C, "", "there")


@pytest.mark.parametrize(("client_id", "size"), [("dev", 128), ("", 160)])
def test_mosquitto_and_a_small_buffer(mosquitto, make, pump, client_id, size):
    """[MQTT5-3.2.2-16] The smallest one; and one that the client id fits that mosquitto assigns."""
    got = []
    broker = mosquitto("max_packet_size 2000")
    client = make(
        broker.port,
        client_id=client_id,
        protocol_level=5,
        buffer=bytearray(size),
        on_message=lambda m: got.append(m.payload),
    )
    client.subscribe("t", 1)
    client.connect()
    client.publish("t", b"x", 1)
    pump(client, lambda: got and client.session.maximum_out == 2000)  # a busy machine may connect more than once


def test_memory_does_not_grow(broker, make):
    """A broker that sends 300,000 bytes of user properties in one packet: none of it is kept."""
    client = make(broker.port, protocol_level=5)
    held = len(client.session.buf)

    def script(b):
        b.welcome(0, [(0x26, ("n" * 1000, "v" * 60_000))] * 5)
        b.answer_ping(publish("t", b"x", properties=b"\0"))
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.ping()
        client.disconnect()
    assert len(client.session.buf) == held and client.session.shorter is None
