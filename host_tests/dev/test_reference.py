"""The reference judged: what its parser refuses, what its server keeps, and how its oracle counts. What the oracle says
of a client's exchanges, host_tests/crash/test_judge.py plays on it by hand."""

import pytest

from dev.reference.kinds import CONNECT, PINGREQ, PUBLISH
from dev.reference.oracle import Finding, JudgedSession, Tally, judge
from dev.reference.server import Connection, Message, Server
from dev.reference.wire import (
    Stream,
    Violation,
    connack,
    packet,
    parse,
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
    span,
    spans,
    string,
    suback,
)

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


# --- packets in a stream ---


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16383, 16384])
def test_where_a_packet_ends(size):
    raw = packet(0x30, bytes(size))
    assert span(raw) == (len(raw) - size, len(raw))
    assert span(b"??" + raw, 2) == (len(raw) - size + 2, len(raw) + 2)
    assert list(spans(raw + raw[:-1])) == [(0, len(raw) - size, len(raw))]


def test_a_remaining_length_that_has_no_end():
    assert span(b"\x30\xff\xff\xff") is None
    with pytest.raises(Violation, match="five bytes"):
        span(b"\x30\xff\xff\xff\xff")


def test_a_stream_in_pieces():
    stream, kinds = Stream(), []
    for byte in GOOD_CONNECT + publish("t", b"x") + packet(0xC0):
        stream.bytes_received(bytes([byte]))
        p = stream.next_packet()
        kinds += [p.kind] if p else []
    assert kinds == [CONNECT, PUBLISH, PINGREQ]
    assert not stream.incomplete


# --- the server ---


def connect(server, clean=0, name="dev", level=4):
    """A Connection, and the packets that its CONNECT was answered with."""
    connection = Connection(server)
    head = string("MQTT" if level == 4 else "MQIsdp") + bytes([level, 2 * clean, 0, 0])
    return connection, says(connection, packet(0x10, head + string(name)))


def says(connection, raw):
    """The answer to a packet of the client."""
    connection.packet_received(parse(raw, connection.level))
    return connection.data_to_send()


def give(connection, *payloads, qos=2):
    connection.session.queue += [Message("t", payload, qos, False) for payload in payloads]
    while connection.send_queued():
        pass
    return connection.data_to_send()


def test_a_session_outlives_its_connection():
    server = Server()
    first, answer = connect(server)
    assert answer == connack(0)
    says(first, packet(0x82, b"\0\1" + string("t") + b"\2"))
    assert give(first, b"a", b"b") == publish("t", b"a", 2, 1) + publish("t", b"b", 2, 2)
    assert says(first, pubrec(1)) == pubrel(1)
    second, answer = connect(server)
    assert answer == connack(1) + pubrel(1) + publish("t", b"b", 2, 2, dup=1)
    assert second.session.subscriptions == {"t": 2}
    assert connect(server, level=3)[1] == connack(0) + pubrel(1, dup=1) + publish("t", b"b", 2, 2, dup=1)
    server.forget()
    assert connect(server)[1] == connack(0)


def test_a_clean_session_ends_the_one_before_and_leaves_none():
    server = Server()
    connect(server)
    clean, answer = connect(server, clean=1)
    assert answer == connack(0)
    assert says(clean, packet(0x82, b"\0\1" + string("t") + b"\1")) == suback(1, 1)
    assert connect(server)[1] == connack(0)


def test_messages_wait_for_a_place_in_flight():
    connection, _ = connect(Server(window=1))
    assert give(connection, b"a", b"b", qos=1) == publish("t", b"a", 1, 1)
    says(connection, puback(1))
    assert give(connection) == publish("t", b"b", 1, 2)
    assert connection.session.flight


def test_message_ids_in_flight_are_passed_over():
    connection, _ = connect(Server())
    connection.session.last_mid = 65534
    connection.session.flight[1] = Message("t", b"", 1, False), False
    assert give(connection, b"a", b"b", qos=1) == publish("t", b"a", 1, 65535) + publish("t", b"b", 1, 2)


def test_qos_2_is_new_once_and_any_pubrel_is_answered():
    connection, _ = connect(Server())
    p = parse(publish("t", b"x", 2, 5))
    assert [connection.packet_received(p) for _ in range(2)] == [True, False]
    assert connection.data_to_send() == 2 * pubrec(5)
    assert says(connection, pubrel(5)) == pubcomp(5)
    assert says(connection, pubrel(77)) == pubcomp(77)
    assert connection.packet_received(p)


def test_a_copy_is_on_its_own():
    server = Server(JudgedSession)
    connection, _ = connect(server)
    give(connection, b"a")
    says(connection, publish("t", b"x", 2, 5))
    other = server.copy()
    again = connection.copy(other)
    says(connection, pubrel(5))
    says(connection, pubrec(1))
    assert again.session is other.sessions["dev"]
    assert again.session.unreleased and not again.session.flight[1][1]
    assert says(again, publish("t", b"x", 2, 5, dup=1)) == pubrec(5)
    with pytest.raises(Finding, match="after its PUBREL"):
        says(connection, publish("t", b"x", 2, 5, dup=1))


# --- the oracle ---


def test_tally():
    some = Tally([1, 3, 2, 2, 6])
    assert some.repeated == 1
    assert [some.missing(accepted) for accepted in (6, 7)] == [2, 3]


def test_judge():
    accepted = {"lost": 1, "once": 2, "twice": 2, "repeated": 1}
    delivered = {"once": 1, "twice": 2, "repeated": 3, "never accepted": 2}
    assert judge(accepted, delivered) == (["lost"], ["twice"], ["repeated"])
