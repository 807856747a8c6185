"""The reference judged: what its parser refuses, what its server keeps, and how its oracle counts. What the oracle says
of a client's exchanges, host_tests/crash/test_judge.py plays on it by hand."""

import pytest

from tools.reference.oracle import Finding, JudgedSession, Tally, judge
from tools.reference.properties import block
from tools.reference.server import Connection, Message, Server
from tools.reference.wire import Violation, connack, packet, parse, publish, pubrec, pubrel, string

BAD = {
    "a server's packet": connack(),
    "reserved type": packet(0xF0),
    "flags of CONNECT": packet(0x11, string("MQTT") + b"\x04\x02\x00\x3c" + string("dev")),
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


# --- level 5 ---

NONE = b"\0"  # no properties


def connect_5(properties=NONE, flags=2, rest=b""):
    return packet(0x10, string("MQTT") + bytes((5, flags)) + b"\x00\x3c" + properties + string("dev") + rest)


def publish_5(first, *pairs, topic="t", mid=b""):
    return packet(first, string(topic) + mid + block(*pairs) + b"x")


BAD_5 = {
    "no properties in CONNECT": packet(0x10, string("MQTT") + b"\5\2\0\0" + string("dev")),
    "property of a will in CONNECT": connect_5(block((0x18, 1))),
    "property twice": connect_5(block((0x11, 1), (0x11, 1))),
    "receive maximum 0": connect_5(block((0x21, 0))),
    "a flag of 2": connect_5(block((0x17, 2))),
    "a will without properties": connect_5(flags=6, rest=string("w") + string("gone")),
    "subscription identifier in PUBLISH": publish_5(0x30, (0x0B, 1)),
    "alias 0": publish_5(0x30, (0x23, 0)),
    "no topic and no alias": publish_5(0x30, topic=""),
    "wildcard in a response topic": publish_5(0x30, (0x08, "a/#")),
    "no properties in PUBLISH": packet(0x30, string("t")),
    "not the shortest length": packet(0x30, string("t") + b"\x80\0"),
    "properties longer than PUBLISH": packet(0x30, string("t") + b"\5\1\1"),
    "a value longer than its block": packet(0x30, string("t") + b"\3\x03\0\5abcde"),
    "unknown property": packet(0x30, string("t") + b"\2\x04\0"),
    "code of another packet": packet(0x62, b"\0\1\x10"),
    "bytes behind properties": packet(0x40, b"\0\1\0\0\0"),
    "reserved bits of options": packet(0x82, b"\0\1" + NONE + string("t") + b"\x40"),
    "retain handling 3": packet(0x82, b"\0\1" + NONE + string("t") + b"\x30"),
    "no local on a shared subscription": packet(0x82, b"\0\1" + NONE + string("$share/g/t") + b"\4"),
    "no properties in SUBSCRIBE": packet(0x82, b"\0\1" + string("t") + b"\0"),
    "server's code in DISCONNECT": packet(0xE0, b"\x8b"),
    "AUTH with code 0": packet(0xF0, b"\0" + NONE),
}


@pytest.mark.parametrize("level, kind", [*((4, kind) for kind in BAD), *((5, kind) for kind in BAD_5)])
def test_bad_packets(level, kind):
    with pytest.raises(Violation):
        parse((BAD if level == 4 else BAD_5)[kind], level)


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


def connect_at_5(server, *pairs, clean=0, name="dev"):
    """As connect(), with these properties."""
    connection = Connection(server)
    raw = packet(0x10, string("MQTT") + bytes((5, 2 * clean, 0, 0)) + block(*pairs) + string(name))
    return connection, says(connection, raw)


def test_sessions_of_level_5():
    """[MQTT5-3.1.2-4] [MQTT5-3.1.2-23] Clean start ends the session before, the expiry interval keeps the new one."""
    server = Server()
    assert connect_at_5(server)[1] == connack(0, 0, NONE)
    assert connect_at_5(server, (0x11, 60))[1] == connack(0, 0, NONE)  # the one before ended with its connection
    assert connect_at_5(server, (0x11, 60))[1] == connack(1, 0, NONE)
    assert connect(server)[1] == connack(1)  # the level may change
    assert connect_at_5(server, (0x11, 60), clean=1)[1] == connack(0, 0, NONE)
    assert connect_at_5(server)[1] == connack(1, 0, NONE)
    assert connect(server)[1] == connack(0)


def test_a_copy_is_on_its_own():
    server = Server(JudgedSession)
    connection, _ = connect(server)
    give(connection, b"a")
    says(connection, publish("t", b"x", 2, 5))
    other = server.copy()
    again = connection.copy_to(other)
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
