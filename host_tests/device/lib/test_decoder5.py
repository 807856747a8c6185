# Packets of level 5 that arrive: whole, one byte at a time, and in pieces longer than the buffer.

from binascii import unhexlify

from harness import EMULATED, allocated, eq, raises
from inflight.level5.mqtt5 import Session5
from inflight.packet import (
    CONNACK,
    DISCONNECT,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    ProtocolError,
)
from tools.reference import wire
from tools.reference.properties import block

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"

MALFORMED, ERROR = 0x81, 0x82
USER = block((0x26, ("name", "value")))


def decoder(size):
    """A session that decodes in `size` bytes."""
    return Session5(None, bytearray(2 * size), b"client", 5)


def events(data, size=128, most=1 << 20):
    """What is found in data by a session that decodes in `size` bytes, read in parts of at most `most` bytes."""
    d = decoder(size)
    found = []
    i = 0
    while i < len(data):
        n = min(d.space, len(data) - i, most)
        d.into[:n] = data[i : i + n]
        d.got(n)
        i += n
        kind = d.next_packet()
        while kind:
            body = bytes(d.buf[d.at : d.at + d.n])
            if kind == PUBLISH:
                topic = bytes(d.buf[d.topic : d.topic + d.topic_len])
                mid = d.mid if d.flags & 6 else 0
                if d.offset:
                    found[-1][4] += body
                else:
                    found.append([kind, d.flags, topic, mid, body, d.size])
            elif kind == SUBACK or kind == UNSUBACK:
                found.append([kind, d.mid, body])
            else:
                found.append([kind, d.mid if PUBLISH < kind < SUBACK else 0, d.reason_code])
            kind = d.next_packet()
    return found


def same(data, wanted, size=128):
    """Whole and one byte at a time."""
    eq(events(data, size), wanted)
    eq(events(data, size, 1), wanted)


def refused(data, code, size=128):
    for most in (1, 1 << 20):
        error = raises(ProtocolError, events, data, size, most)
        eq((data, error.reason_code), (data, code))


def test_publish():
    """[MQTT5-2.2.1-2] [MQTT5-2.2.2-1] [MQTT5-3.3.2-1] With and without properties, at each QoS."""
    for properties in (b"\0", USER, block((0x0B, 5), (0x0B, 300), (0x03, "text"))):
        for qos in range(3):
            data = wire.publish("a/b", b"payload", qos, qos and 7, 0, 1, properties)
            same(data + data, 2 * [[PUBLISH, qos << 1 | 1, b"a/b", qos and 7, b"payload", 7]])
            same(
                wire.publish("a", b"", qos, qos and 7, properties=properties),
                [[PUBLISH, qos << 1, b"a", qos and 7, b"", 0]],
            )


def test_acknowledgements():
    """[MQTT5-2.2.1-5] [MQTT5-3.4.2-1] [MQTT5-3.5.2-1] [MQTT5-3.6.2-1] [MQTT5-3.7.2-1] [MQTT5-3.1.2-29] With a code and
    properties, though none were asked for, a code alone, neither. Failures of other numbers are failures, too: a broker
    sends PUBREC 93."""
    reason = block((0x1F, "why"), (0x26, ("a", "b")))
    for kind, make, codes in (
        (PUBACK, wire.puback, b"\x00\x10\x80\x83\x87\x90\x91\x93\x97\x99"),
        (PUBREC, wire.pubrec, b"\x00\x10\x80\x83\x87\x90\x91\x93\x97\x99"),
        (PUBREL, lambda mid, code=None, properties=None: wire.pubrel(mid, 0, code, properties), b"\x00\x92"),
        (PUBCOMP, wire.pubcomp, b"\x00\x92"),
    ):
        same(make(300), [[kind, 300, 0]])
        for properties in (None, b"\0", reason):
            for code in codes:
                same(make(5, code, properties), [[kind, 5, code]])
        for code in (1, 0x10, 0x11, 0x7F, 0x80, 0x91, 0xFF):
            if code not in codes and (code < 0x80 or kind > PUBREC):
                refused(make(5, code, reason), ERROR)


def test_others():
    """[MQTT5-2.2.1-6] Answers to requests have as many codes as there are; DISCONNECT may be empty."""
    same(wire.suback(9, 0, 0x80, properties=USER), [[SUBACK, 9, b"\x00\x80"]])
    same(wire.unsuback(9, 0x11, properties=b"\0"), [[UNSUBACK, 9, b"\x11"]])
    same(wire.connack(1, 0, block((0x21, 10))), [[CONNACK, 0, 0]])
    same(wire.connack(0, 1), [[CONNACK, 0, 1]])  # of level 3 and 4
    same(wire.pingresp(), [[PINGRESP, 0, 0]])
    same(b"\xe0\x00", [[DISCONNECT, 0, 0]])
    same(b"\xe0\x01\x8b", [[DISCONNECT, 0, 0x8B]])
    same(wire.disconnect(0x8E, block((0x1F, "why"))), [[DISCONNECT, 0, 0x8E]])


def test_malformed():
    """[MQTT5-1.5.4-1] [MQTT5-1.5.5-1] [MQTT5-2.1.3-1] [MQTT5-3.3.1-2] [MQTT5-3.3.1-4] [MQTT5-3.3.2-2] [MQTT5-3.14.1-1]
    [MQTT5-3.15.1-1] [MQTT5-3.6.1-1] Wrong lengths, flags, strings."""
    for text in (
        # properties that are cut off; a byte too many; not the shortest length
        "40 01 00, 40 05 00 01 00 01 26, 40 05 00 01 00 00 00, 40 05 00 01 00 80 00, 40 ff ff ff ff 01",
        "41 02 00 01, 60 02 00 01, b1 04 00 01 00 00, e1 00, f1 02 18 00, 00 00, 10 00, 80 02 00 01, c0 00",
        "90 03 00 01 00, b0 02 00 01",  # no code
        "20 01 00, 20 04 00 00 00 00, d0 01 00, e0 03 00 00 00",
        # PUBLISH of QoS 3; with DUP at QoS 0; without properties; wrong topics
        "36 06 00 01 61 00 01 00, 38 04 00 01 61 00, 30 03 00 01 61, 30 05 00 01 61 05 26",
        "30 04 00 01 ff 00, 30 04 00 01 00 00, 30 04 00 01 2b 00",
    ):
        for data in text.split(", "):
            refused(unhexlify(data.replace(" ", "")), MALFORMED)


def test_protocol_errors():
    """[MQTT5-2.2.1-4] [MQTT5-3.3.2-1] [MQTT5-3.14.2-2] Well formed, and not allowed: id 0, no topic, properties."""
    for data in (
        b"\x40\x02\x00\x00",
        b"\x32\x06\x00\x01a\x00\x00\x00",
        b"\x30\x03\x00\x00\x00",
        wire.disconnect(0, block((0x11, 9))),
        wire.puback(1, 0, block((0x21, 9))),
        wire.publish("a", properties=block((0x21, 9))),
        wire.publish("a", properties=block((0x01, 1), (0x01, 1))),
    ):
        refused(data, ERROR)
    refused(wire.publish("a", properties=block((0x23, 1))), 0x94)


def test_longer_than_the_buffer():
    """In pieces: the properties are those of the whole message, and no part of its payload."""
    payload = bytes(range(256)) + bytes(50)
    for size, properties in ((128, b"\0"), (160, USER), (250, block((0x26, ("n" * 20, "v" * 10))))):
        for qos in range(3):
            data = wire.publish("a/b", payload, qos, qos and 7, 0, 0, properties)
            for lead in (b"", wire.publish("x", bytes(size - 30), properties=b"\0")):
                for most in (7, 1 << 20) if EMULATED else (1, 7, 1 << 20):
                    found = events(lead + data + data, size, most)
                    eq(found[-2:], 2 * [[PUBLISH, qos << 1, b"a/b", qos and 7, payload, len(payload)]])


LONG = (0x26, ("n" * 250, "v" * 250))


def test_packets_longer_than_the_buffer():
    """User properties, and texts of more than a quarter of the buffer, are left out while they come; a short reason of
    a failure, and what is needed, stay. The next packet is what it is."""
    many = [LONG, (0x26, ("", "")), LONG]
    reason = (0x1F, "why")
    texts = [(0x1F, "x" * 200), (0x1C, "x" * 17_000)]  # a length of three bytes
    for data, wanted, kept in (
        (wire.connack(1, 0, block(*many, (0x12, "id"), reason, (0x22, 9), *many)), [CONNACK, 0, 0], b"\x12\x22"),
        (wire.connack(0, 0x87, block(reason, *many)), [CONNACK, 0, 0x87], b"\x1f"),
        (wire.puback(5, 0x87, block(*many, reason)), [PUBACK, 5, 0x87], b"\x1f"),
        (wire.pubrel(5, 0, 0x92, block(*texts[:1])), [PUBREL, 5, 0x92], b""),
        (wire.suback(5, 1, 2, properties=block(*many)), [SUBACK, 5, b"\x01\x02"], b""),
        (wire.unsuback(5, 0x11, properties=block(*texts[:1])), [UNSUBACK, 5, b"\x11"], b""),
        (wire.disconnect(0x8E, block(*texts, *many)), [DISCONNECT, 0, 0x8E], b""),
        (wire.disconnect(0x9D, block((0x1C, "there"), *many)), [DISCONNECT, 0, 0x9D], b"\x1c"),
        (wire.auth(0x18, block((0x15, "method"), reason, *many, (0x16, b"data"))), [15, 0, 0x18], b"\x15\x16"),
    ):
        for lead, most in ((b"", 1), (wire.pingresp(), 7), (wire.puback(7), 1 << 20)):
            if most > 1 or len(data) < 2000:
                found = events(lead + data + wire.puback(9), 64, most)
                eq(found[-2:], [wanted, [PUBACK, 9, 0]])
        d = decoder(64)
        i = kind = 0
        while not kind:
            k = min(d.space, len(data) - i)
            d.into[:k] = data[i : i + k]
            d.got(k)
            i += k
            kind = d.next_packet()
        kinds = []
        if d.block:
            cursor = d.properties(Session5.places[kind])
            found = cursor.next()
            while found:
                kinds.append(found)
                found = cursor.next()
        eq(bytes(kinds), kept)


def test_packets_that_stay_longer_than_the_buffer():
    """[MQTT5-4.13.1-1] What is needed of them does not fit; or they are not what they ought to be."""
    for data in (
        wire.connack(0, 0, block((0x12, "i" * 200))),
        wire.auth(0x18, block((0x15, "m"), (0x16, bytes(200)))),
        wire.suback(1, *bytes(200), properties=b"\0"),
    ):
        refused(data, 0x95, 64)
    for data in (
        b"\x10\xff\x01",
        b"\xe1\x50",
        b"\xd0\xff\x01",
        b"\x40\x80\x01\0\1\0\xff\xff\xff\xff",
        b"\x40\x80\x01\0\1\0\xfd\0",  # not the shortest
        b"\x40\x80\x01\0\1\0\x7d",  # longer than the packet
        b"\x40\x80\x01\0\1\0\x7c\x26\0\1a\1\0",  # a text that is longer than the properties
        b"\x40\x80\x01\0\1\0\x7c\x1f\0\xf0",
        b"\x40\x80\x01\0\1\0\x7c\x1f\0\x74" + bytes(116) + b"\x26\0\2\0\0",  # the second text is missing
        b"\x40\x80\x01\0\1\0\x05" + block((0x26, ("", "")))[1:] + bytes(119),  # more behind them
    ):
        raises(ProtocolError, events, data, 64)
    refused(wire.puback(1, 0, block((0x21, 9), LONG)), ERROR, 64)


def test_properties_longer_than_the_buffer():
    """The message comes without its user properties. If its topic or its other properties are too long, it is read to
    its end, and its topic is none."""
    for properties, topic, kept in (
        (block((0x26, ("n", "v" * 200))), "a", b"a"),
        (block((0x26, ("n", "v" * 200)), (0x03, "c" * 60)), "t" * 40, b"t" * 40),
        (USER, "t" * 60, b"t" * 60),
        (b"\0", "t" * 110, b"t" * 110),
        (b"\0", "t" * 200, b""),
        (block((0x03, "c" * 60)), "t" * 60, b""),
        (block((0x03, "c" * 200)), "t", b""),
        (block((0x0B, 300), (0x26, ("n", "v" * 200)), (0x0B, 70_000)), "t" * 108, b"t" * 108),
        (block((0x0B, 300), (0x26, ("n", "v" * 200)), (0x0B, 70_000)), "t" * 115, b""),
    ):
        for qos in range(3):
            for payload in (b"", b"p", b"p" * 200):
                data = wire.publish(topic, payload, qos, qos and 9, 0, 0, properties)
                if len(data) <= 128:
                    continue
                for most in (1, 1 << 20):
                    found = events(wire.pingresp() + data + wire.puback(3), 128, most)
                    eq([found[1][:4], found[2]], [[PUBLISH, qos << 1, kept, qos and 9], [PUBACK, 3, 0]])
                    assert not kept or found[1][4:] == [payload, len(payload)]


def test_long_messages_that_are_refused():
    """[MQTT5-1.5.5-1] [MQTT5-3.3.1-2] [MQTT5-3.3.1-4] [MQTT5-3.3.2-8] [MQTT5-4.13.1-1] Flags, lengths that are not the
    shortest, properties whose length is that of more than the packet, and an alias: also where the message has no space
    beside its topic or its properties."""
    body = b"\0\1" + b"\0" + bytes(100)
    for topic in ("t", "t" * 50):
        for flags in (6, 7, 14, 15, 8, 9):
            refused(wire.packet(0x30 | flags, wire.string(topic) + body), MALFORMED, 64)
    for data in (b"\xd0\x80\0", b"\x40\x82\0\0\1", b"\xe0\xc5\0" + bytes(100), b"\x30\x84\x80\0\0\1t\0"):
        refused(data, MALFORMED, 64)
    same(wire.publish("t", bytes(124), properties=b"\0"), [[PUBLISH, 0, b"t", 0, bytes(124), 124]], 256)
    refused(wire.packet(0x32, wire.string("t" * 50) + b"\0\1"), MALFORMED, 64)  # without properties
    for size in (b"\x81\2", b"\xff\2", b"\x09"):
        refused(b"\x30\x84\x02\x00\x01a" + size + bytes(256), MALFORMED)
    properties = block((1, 0), (3, "c" * 8), (0x26, ("n" * 8, "v")), (0x23, 24_648))
    for n in (1, 2, 20, 29, 30, 31, 32, 40):
        refused(wire.publish("t" * n, bytes(127), 2, 3, properties=properties), 0x94, 64)


def test_heap():
    """A message costs nothing, whatever its properties are."""
    properties = block((0x02, 9), (0x03, "application/json"), (0x26, ("a", "b")))
    data = wire.publish("a/b", b"payload", 1, 7, properties=properties) + wire.puback(3, 0x10)
    d = decoder(128)

    def some():
        for _ in range(20):
            for c in data:
                d.into[0] = c
                d.got(1)
                while d.next_packet():
                    pass

    eq(allocated(some), 0)
