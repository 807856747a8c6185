"""The judge judged: what the scripted broker refuses, and that its refusal reaches the test."""

import socket

import pytest

from broker import CONNECT, PUBLISH, Automatic, Gone, Violation, connack, packet, parse, publish, string

GOOD_CONNECT = packet(0x10, string("MQTT") + b"\x04\x02\x00\x3c" + string("dev"))

GOOD = [
    GOOD_CONNECT,
    packet(0x10, string("MQIsdp") + b"\x03\x00\x00\x3c" + string("d" * 23)),
    packet(0x30, string("t") + b"x"),
    packet(0x3B, string("t") + b"\x00\x01x"),
    packet(0x3D, string("t") + b"\x00\x01"),
    packet(0x40, b"\0\1"),
    packet(0x50, b"\0\1"),
    packet(0x62, b"\0\1"),
    packet(0x70, b"\0\1"),
    packet(0x82, b"\0\1" + string("a/#") + b"\2"),
    packet(0xA2, b"\0\1" + string("a/#")),
    packet(0xC0),
    packet(0xE0),
]


@pytest.mark.parametrize("raw", GOOD, ids=lambda raw: raw[:12].hex())
def test_good_packets(raw):
    assert parse(raw).raw == raw


BAD = {
    "a server's packet": connack(),
    "reserved type": packet(0xF0),
    "flags of CONNECT": packet(0x11, GOOD_CONNECT[2:]),
    "reserved connect flag": packet(0x10, string("MQTT") + b"\x04\x03\x00\x3c" + string("dev")),
    "protocol name": packet(0x10, string("MQTT") + b"\x03\x02\x00\x3c" + string("dev")),
    "will QoS without will": packet(0x10, string("MQTT") + b"\x04\x0a\x00\x3c" + string("dev")),
    "will QoS 3": packet(0x10, string("MQTT") + b"\x04\x1e\x00\x3c" + string("dev") + string("w") + string("")),
    "password without user": packet(0x10, string("MQTT") + b"\x04\x42\x00\x3c" + string("dev") + string("p")),
    "field missing": packet(0x10, string("MQTT") + b"\x04\x82\x00\x3c" + string("dev")),
    "field too many": packet(0x10, string("MQTT") + b"\x04\x02\x00\x3c" + string("dev") + string("u")),
    "empty id": packet(0x10, string("MQTT") + b"\x04\x00\x00\x3c" + string("")),
    "long id at level 3": packet(0x10, string("MQIsdp") + b"\x03\x00\x00\x3c" + string("d" * 24)),
    "QoS 3": packet(0x36, string("t") + b"\0\1"),
    "DUP at QoS 0": packet(0x38, string("t")),
    "Message ID 0": packet(0x32, string("t") + b"\0\0"),
    "no Message ID": packet(0x32, string("t")),
    "wildcard": publish("a/#"),
    "empty topic": publish(""),
    "surrogate": publish(b"\xed\xa0\x80"),
    "U+0000": publish("a\0"),
    "PUBACK of three bytes": packet(0x40, b"\0\1\0"),
    "PUBACK of Message ID 0": packet(0x40, b"\0\0"),
    "flags of PUBACK": packet(0x42, b"\0\1"),
    "flags of PUBREL": packet(0x60, b"\0\1"),
    "DUP of PUBREL": packet(0x6A, b"\0\1"),
    "flags of SUBSCRIBE": packet(0x80, b"\0\1" + string("a") + b"\0"),
    "no filter": packet(0x82, b"\0\1"),
    "filter without QoS": packet(0x82, b"\0\1" + string("a")),
    "QoS 3 of a filter": packet(0x82, b"\0\1" + string("a") + b"\3"),
    "UNSUBSCRIBE without filters": packet(0xA2, b"\0\1"),
    "PINGREQ with a body": packet(0xC0, b"\0"),
    "flags of DISCONNECT": packet(0xE1),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_packets(kind):
    with pytest.raises(Violation):
        parse(BAD[kind])


def test_dup_at_level_3():
    for raw in (
        packet(0x6A, b"\0\1"),
        packet(0x8A, b"\0\1" + string("a") + b"\0"),
        packet(0xAA, b"\0\1" + string("a")),
    ):
        assert parse(raw, level=3).dup


def talk(port, *data):
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.settimeout(5)
        for part in data:
            sock.sendall(part)
        try:
            while sock.recv(1000):
                pass
        except OSError:
            pass


def test_script_failure_is_the_tests_failure(broker):
    def script(b):
        b.accept()
        b.expect(CONNECT, client_id="another")

    with pytest.raises(Violation, match="client_id"), broker.play(script):
        talk(broker.port, GOOD_CONNECT)


def test_script_failure_comes_before_the_clients(broker):
    def script(b):
        b.accept()
        b.expect(PUBLISH)

    with pytest.raises(Violation, match="PUBLISH expected"), broker.play(script):
        talk(broker.port, GOOD_CONNECT)
        raise OSError("the connection was reset")


@pytest.mark.parametrize("first", [packet(0xC0), publish("t")])
def test_first_packet(broker, first):
    def script(b):
        b.accept()
        b.receive()

    with pytest.raises(Violation, match="is packet 1"), broker.play(script):
        talk(broker.port, first)


def test_second_connect_and_after_disconnect(broker):
    def script(b):
        for _ in range(2):
            b.accept()
            b.expect(CONNECT)
            with pytest.raises(Violation):
                while True:
                    b.receive()
            b.cut()

    with broker.play(script):
        talk(broker.port, GOOD_CONNECT + GOOD_CONNECT)
        talk(broker.port, GOOD_CONNECT + packet(0xE0) + packet(0xC0))


def test_end_inside_a_packet(broker):
    def script(b):
        b.accept()
        with pytest.raises(Gone, match="inside"):
            b.receive()

    with broker.play(script), socket.create_connection(("127.0.0.1", broker.port)) as sock:
        sock.sendall(GOOD_CONNECT[:5])


AUTOMATIC = {
    "again without DUP": [publish("t", b"x", 1, 5), publish("t", b"x", 1, 5)],
    "another message under the id": [publish("t", b"x", 2, 5), publish("t", b"y", 2, 5, dup=1)],
    "PUBLISH after PUBREL": [publish("t", b"x", 2, 5), packet(0x62, b"\0\5"), publish("t", b"x", 2, 5, dup=1)],
}


@pytest.mark.parametrize("kind", AUTOMATIC)
def test_automatic_judges(kind):
    broker = Automatic()
    talk(broker.port, GOOD_CONNECT, *AUTOMATIC[kind])
    with pytest.raises(Violation):
        broker.stop()
