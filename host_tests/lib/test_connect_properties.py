"""Level 5: properties of CONNECT beside those that each client sends, and what comes of them."""

import pytest

from inflight import ProtocolError
from inflight.level5.authentication import Authentication
from inflight.level5.properties5 import connect_properties
from tools.reference.kinds import DISCONNECT, PUBLISH
from tools.reference.properties import block
from tools.reference.wire import packet, publish

NONE = b"\0"
USER = (("firmware", "1.2"), ("firmware", "boot 3"), ("café", ""))


@pytest.fixture
def join(broker, make):
    """join(**arguments of connect_properties()) is a client of level 5."""

    def start(options=(), **arguments):
        return make(broker.port, protocol_level=5, connect_properties=connect_properties(**arguments), **dict(options))

    return start


def test_everything(broker, join):
    """[MQTT5-3.1.2-11] [MQTT5-3.1.2-28] [MQTT5-3.1.2-29] In each CONNECT."""
    client = join(max_packet=4096, response_information=True, user=USER)

    def script(b):
        for text in ("reply/", ""):
            p = b.welcome(0, ((0x1A, text),) if text else ())
            assert sorted(p.properties, key=repr) == sorted(
                [(0x11, 0xFFFFFFFF), (0x17, 0), (0x21, 32), (0x27, 4096), (0x19, 1), *((0x26, pair) for pair in USER)],
                key=repr,
            )
            b.goodbye()

    with broker.play(script):
        for text in ("reply/", ""):
            client.connect()
            assert client.session.response_information == text
            client.disconnect()


def test_with_authentication(broker, join):
    """[MQTT5-3.1.2-11] Together they may take more than 127 bytes."""
    auth = Authentication("token", lambda data: bytes(100))
    client = join({"auth": auth}, user=(("a", "b" * 100),))

    def script(b):
        p = b.welcome(0, ((0x15, "token"),))
        assert (0x26, ("a", "b" * 100)) in p.properties and (0x16, bytes(100)) in p.properties
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.disconnect()


@pytest.mark.parametrize("reasons", [True, False])
def test_reason_of_a_refused_message(broker, join, pump, reasons):
    """[MQTT5-3.4.2-2] [MQTT5-3.5.2-2] The application is told the broker's text."""
    errors = []
    client = join({"on_error": errors.append}, reasons=reasons)

    def script(b):
        p = b.welcome()
        properties = dict(p.properties)
        assert (properties.get(0x17), properties.get(0x27)) == ((None, 512) if reasons else (0, None))
        for first, properties in ((0x40, block((0x26, ("a", "b")), (0x1F, "no such room"))), (0x50, NONE)):
            mid = b.expect(PUBLISH).mid
            b.send(packet(first, mid.to_bytes(2, "big") + b"\x87" + properties))
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.publish("t", b"x", 1)
        client.publish("t", b"x", 2)
        pump(client, lambda: len(errors) == 2)
        client.disconnect()
    assert [error.reason for error in errors] == ["no such room", ""]
    assert "no such room" in str(errors[0]) and [error.code for error in errors] == [0x87, 0x87]


@pytest.mark.parametrize("excess", [0, 1])
def test_longest_packet(broker, join, excess):
    """[MQTT5-3.1.2-24] [MQTT5-4.13.1-1] A packet of max_packet bytes comes in pieces; a longer one is an error of the
    broker, which is told."""
    client = join({"reconnect": False}, max_packet=2000)
    got = []
    client.subscribe("t", 0, lambda m: got.append(bytes(m.payload)), stream=True)
    raw = publish("t", b"x" * (2000 + excess - 7), properties=NONE)
    assert len(raw) == 2000 + excess

    def script(b):
        b.welcome()
        b.grant()
        b.answer_ping(raw)
        if excess:
            assert b.expect(DISCONNECT).code == 0x95
            b.expect_close()
        else:
            b.goodbye()

    with broker.play(script):
        client.connect()
        if excess:
            with pytest.raises(ProtocolError):
                client.ping()
        else:
            client.ping()
            client.disconnect()
    assert sum(map(len, got)) == (0 if excess else 1993)


def test_bad_arguments(make):
    for arguments in (
        *({"max_packet": n} for n in (0, True, 2000.0, "2000", 1 << 29)),
        {"max_packet": 4096, "reasons": True},
        *({"user": user} for user in (("ab", "cd"), [("a", "x" * 120)], [("\0", "x")])),
    ):
        with pytest.raises(ValueError):
            connect_properties(**arguments)
    for given, options in (
        (connect_properties(max_packet=511), {}),  # less than half the buffer
        (b"\x19\x01", {}),
        (connect_properties(reasons=True), {"protocol_level": 4}),
        (connect_properties(user=[("a", "x" * 100)]), {"buffer": bytearray(256)}),
    ):
        with pytest.raises(ValueError):
            make(1, connect_properties=given, **{"protocol_level": 5, **options})
