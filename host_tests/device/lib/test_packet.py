# The wire format: encoded bytes, decoding of input split at any byte, refused packets.

from binascii import unhexlify

import inflight.packet as packet
from harness import allocated, eq, raises
from inflight.packet import ProtocolError
from inflight.session.packet_buffer import PacketBuffer
from inflight.session.session import connect_packet
from inflight.session.subscribe import request_packet

RUNTIMES = "cpython micropython-x64 micropython-x86 micropython-wasm"
MORE_RUNTIMES = "micropython-armhf"


def h(text):
    return unhexlify(text.replace(" ", ""))


def made(encode, *args):
    """The output of an encoder; the buffer is larger than needed, and must not change after the packet."""
    buf = bytearray(b"\xa5" * 400)
    n = encode(buf, *args)
    # Copying may zero bytes of the buffer after the packet.
    eq(len(buf), 400)
    return bytes(buf[:n])


def server_publish(topic, payload=b"", qos=0, mid=1, dup=0, retain=0):
    """A PUBLISH as a server sends it, encoded without the code under test."""
    body = bytes([len(topic) >> 8, len(topic) & 255]) + topic
    if qos:
        body += bytes([mid >> 8, mid & 255])
    body += payload
    return bytes([0x30 | dup << 3 | qos << 1 | retain]) + remaining(len(body)) + body


def remaining(n):
    out = []
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + [n])


# --- encoding ---

WILL = (b"w/t", b"\x00gone", 2, True)
EVERYTHING = (4, b"dev", False, 10, b"user", b"\xffpw", WILL)
EMPTY = (4, b"d", False, 0, b"", b"", (b"t", b"", 0, False))
ENCODED = (
    (connect_packet, (4, b"dev", True, 60), "10 0f 0004 4d515454 04 02 003c 0003 646576"),
    (connect_packet, (4, b"dev", False, 0), "10 0f 0004 4d515454 04 00 0000 0003 646576"),
    (connect_packet, (4, b"", True, 65535), "10 0c 0004 4d515454 04 02 ffff 0000"),
    (connect_packet, (3, b"dev", False, 60), "10 11 0006 4d5149736470 03 00 003c 0003 646576"),
    (
        connect_packet,
        EVERYTHING,
        "10 26 0004 4d515454 04 f4 000a 0003 646576 0003 772f74 0005 00676f6e65 0004 75736572 0003 ff7077",
    ),
    (connect_packet, EMPTY, "10 16 0004 4d515454 04 c4 0000 0001 64 0001 74 0000 0000 0000"),
    (packet.publish, (b"a/b", 5, 0, False, 77), "30 0a 0003 612f62"),
    (packet.publish, (b"a/b", 0, 0, True, 77), "31 05 0003 612f62"),
    (packet.publish, (b"a/b", 5, 1, False, 1), "32 0c 0003 612f62 0001"),
    (packet.publish, (b"a/b", 5, 2, True, 65535), "35 0c 0003 612f62 ffff"),
    (packet.ack, (4, 0x1234), "40021234"),
    (packet.ack, (5, 0x1234), "50021234"),
    (packet.ack, (6, 0x1234), "62021234"),
    (packet.ack, (7, 65535), "7002ffff"),
    (packet.ack, (6, 1, 8), "6a020001"),  # DUP of level 3: only PUBREL has it
    (packet.ack, (4, 1, 8), "40020001"),
    (packet.ack, (5, 1, 8), "50020001"),
    (packet.ack, (7, 1, 8), "70020001"),
    (request_packet, (10, [b"a/#"], [1]), "82 08 000a 0003 612f23 01"),
    (request_packet, (1, [b"a", b"+/b"], [0, 2]), "82 0c 0001 0001 61 00 0003 2b2f62 02"),
    (request_packet, (10, [b"a/#"], None), "a2 07 000a 0003 612f23"),
    (request_packet, (1, [b"a", b"+/b"], None), "a2 0a 0001 0001 61 0003 2b2f62"),
    (request_packet, (1, [b"a"], [0], 8), "8a 06 0001 0001 61 00"),
    (request_packet, (1, [b"a"], None, 8), "aa 05 0001 0001 61"),
    (packet.bare, (packet.PINGREQ,), "c000"),
    (packet.bare, (packet.DISCONNECT,), "e000"),
)


def test_encoded():
    """[MQTT-2.2.2-1] [MQTT-2.3.1-1] [MQTT-2.3.1-5] [MQTT-2.3.1-6] [MQTT-3.1.0-1] [MQTT-3.1.2-9] [MQTT-3.1.2-19]
    [MQTT-3.1.2-21] [MQTT-3.1.3-1] [MQTT-3.1.3-3] [MQTT-3.3.1-2] [MQTT-3.3.1-4] [MQTT-3.3.2-1] [MQTT-3.6.1-1]
    [MQTT-3.8.1-1] [MQTT-3.8.3-3] [MQTT-3-8.3-4] [MQTT-3.10.1-1] [MQTT-3.10.3-1] [MQTT-3.10.3-2] [MQTT-3.14.1-1]
    [MQTT-4.3.1-1] [MQTT31-1] [MQTT31-2] [MQTT31-9] Each packet of a client, byte for byte. An empty user name, password
    or will message differs from a missing one."""
    for encode, arguments, text in ENCODED:
        eq(made(encode, *arguments), h(text))


def test_connect_flags():
    """[MQTT-3.1.2-3] [MQTT-3.1.2-11] [MQTT-3.1.2-13] [MQTT-3.1.2-14] [MQTT-3.1.2-15] [MQTT-3.1.2-18] [MQTT-3.1.2-20]
    Each flag belongs to its field, which is not there without it; bit 0 is never set."""
    cases = [((), 0, 15), ((b"u",), 0x80, 18), ((b"", b""), 0xC0, 19), ((b"u", b"p"), 0xC0, 21)]
    for qos in range(3):
        cases.append(((None, None, (b"t", b"", qos, False)), 4 | qos << 3, 20))
        cases.append(((None, None, (b"t", b"", qos, True)), 0x24 | qos << 3, 20))
    for arguments, flags, length in cases:
        data = made(connect_packet, 4, b"d", False, 0, *arguments)
        eq((data[9], len(data)), (flags, length))


def head(topic, size, qos, retain=False, mid=0):
    return made(packet.publish, topic, size, qos, retain, mid)


def test_remaining_length_boundaries():
    """The shortest encoding, of one to four bytes."""
    for text in ("7f", "8001", "ff7f", "808001", "ffff7f", "80808001", "ffffff7f"):
        total = sum([(digit & 127) << 7 * k for k, digit in enumerate(h(text))])
        data = head(b"t", total - 3, 0)
        eq(data, b"\x30" + h(text) + b"\x00\x01t")
        eq(packet.length(b"\xff" + data, 1), total + len(h(text)) + 1)
    raises(ValueError, packet.publish, bytearray(64), b"t", 268435455 - 2, 0, False, 0)


def test_copy_every_length():
    """Copies of any length to any offset, up to the last byte of the buffer, and not further. Payloads may be bytes,
    bytearray or memoryview."""
    data = bytes([i & 255 for i in range(1, 700)])
    for size in (700, 64, 9):
        for n in (0, 1, 7, 8, 9, 31, 32, 33, 127, 128, 129, 511, 512, 513, 600):
            for i in (0, 1, 50):
                if i + n > size:
                    continue
                buf = bytearray(size)
                eq(packet.copy(buf, i, (bytes, bytearray, memoryview)[n % 3](data[:n])), i + n)
                eq(bytes(buf[i : i + n]), data[:n])
                eq(bytes(buf[:i]), bytes(i))
                eq(len(buf), size)


def test_buffers_too_small():
    """A packet that does not fit is refused before a byte is written."""
    for size in range(16):
        buf = bytearray(size)
        raises(ValueError, connect_packet, buf, 4, b"dev", True, 60)
        eq(bytes(buf), bytes(size))
    for size in range(7):
        buf = bytearray(size)
        raises(ValueError, packet.publish, buf, b"abc", 0, 1, False, 1)
        raises(ValueError, request_packet, buf, 1, [b"abc"], [0])
        raises(ValueError, request_packet, buf, 1, [b"abc"], None)
        eq(bytes(buf), bytes(size))


# --- decoding ---


def note(d, kind, out):
    """Appends the decoder's event to `out`; chunks of a PUBLISH are joined."""
    data = bytes(d.buf[d.at : d.at + d.n])
    if kind != packet.PUBLISH:
        mid = d.mid if kind not in (packet.CONNACK, packet.PINGRESP) else 0
        out.append((kind, mid, data))
        return
    topic = bytes(d.buf[d.topic : d.topic + d.topic_len]) if d.topic_len else None
    mid = d.mid if d.flags & 6 else 0
    if d.offset:
        last = out.pop()
        eq(last[:5], (kind, mid, d.flags, topic, d.size))
        eq(d.offset, len(last[5]))
        data = last[5] + data
    eq(d.left, d.size - len(data))
    out.append((kind, mid, d.flags, topic, d.size, data))


def decoded(data, step=0, split=0, size=256, level=4):
    """The events of `data`, read in steps, or split once at `split`, as the decoder has space."""
    d = PacketBuffer()
    d.use(bytearray(2 * size), None, level)
    out = []
    i = 0
    while i < len(data):
        n = min(d.space, len(data) - i, step or len(data))
        if i < split:
            n = min(n, split - i)
        assert n > 0, "the decoder wants nothing at byte %d" % i
        d.into[:n] = data[i : i + n]
        d.got(n)
        i += n
        kind = d.next_packet()
        while kind:
            note(d, kind, out)
            kind = d.next_packet()
    return out


STREAM = (
    h("20 02 00 00")
    + h("90 05 0102 00 01 80")
    + server_publish(b"a", b"")
    + h("d0 00")
    + server_publish(b"a/b", b"hello", 1, 500, 1, 1)
    + h("40 02 0001")
    + h("50 02 ffff")
    + h("62 02 8000")
    + h("70 02 1000")
    + server_publish(b"\xe2\x82\xac/$", b"\x00\xff", 2, 65535)
    + h("b0 02 0a0b")
)
EVENTS = [(2, 0, b"\0\0"), (9, 0x102, b"\x00\x01\x80"), (3, 0, 0, b"a", 0, b""), (13, 0, b"")]
EVENTS += [(3, 500, 0x0B, b"a/b", 5, b"hello"), (4, 1, b""), (5, 65535, b""), (6, 0x8000, b""), (7, 0x1000, b"")]
EVENTS += [(3, 65535, 4, b"\xe2\x82\xac/$", 2, b"\x00\xff"), (11, 0xA0B, b"")]


def test_decode():
    """[MQTT-2.3.1-5] [MQTT-3.3.2-1] All packets that a server sends: whole, in steps of one byte and of a few bytes,
    and split in two at every byte. A remaining length may be longer than necessary, up to 4 bytes."""
    for step in (0, 1, 2, 3, 5, 7, 11):
        for size in (64, 80, 256):
            eq(decoded(STREAM, step, 0, size), EVENTS)
    for split in range(1, len(STREAM)):
        eq(decoded(STREAM, 0, split, 64), EVENTS)
    eq(len(decoded(h("d000") * 500, 0, 0, 64)), 500)
    eq(len(decoded(h("40020001") * 500, 3, 0, 64)), 500)
    eq(decoded(h("40 82 00 0001")), [(4, 1, b"")])
    eq(decoded(h("40 82 80 80 00 0001"), 1), [(4, 1, b"")])


def test_reset():
    """A new connection does not depend on where the previous one ended."""
    long = server_publish(b"topic", bytes(500), 1, 9)
    for data in (STREAM, long, server_publish(bytes(60).replace(b"\0", b"t"), bytes(100), 2, 9)):
        for n in range(1, min(len(data), 90)):
            d = PacketBuffer()
            d.use(bytearray(128), None)
            i = 0
            while i < n:
                k = min(d.space, n - i)
                d.into[:k] = data[i : i + k]
                d.got(k)
                while d.next_packet():
                    pass
                i += k
            d.forget_received()
            d.into[:4] = h("40020007")
            d.got(4)
            eq(d.next_packet(), packet.PUBACK)
            eq(d.mid, 7)
            eq(d.next_packet(), 0)


# --- streaming ---


def pattern(n):
    return bytes([(i * 7 + i // 256) & 255 for i in range(n)])


def test_payload_longer_than_the_buffer():
    """A payload of any size arrives in chunks, each with its topic."""
    for qos in range(3):
        for n in (55, 56, 57, 64, 65, 127, 128, 200, 1000):
            data = server_publish(b"a/b", pattern(n), qos, 300)
            want = [(3, 300 if qos else 0, qos << 1, b"a/b", n, pattern(n)), (13, 0, b"")]
            for step in (0, 1, 3, 50):
                eq(decoded(data + h("d000"), step, 0, 64), want)


def test_pieces_of_a_payload_need_no_heap():
    decoder = PacketBuffer()
    decoder.use(bytearray(128), None)
    data = server_publish(b"a/b", bytes(10_000))[:32]
    decoder.into[: len(data)] = data
    decoder.got(len(data))
    while decoder.next_packet():
        pass

    def pieces():
        for _ in range(15):
            decoder.got(decoder.space)
            while decoder.next_packet():
                pass

    eq(allocated(pieces), 0)
    assert decoder.offset > 1000


def topic_of(n):
    return (b"level/" * (n // 6 + 1))[:n]


def test_topic_too_long_to_keep():
    """[MQTT-4.5.0-2] The message is read to its end, and its id is known for the acknowledgement."""
    for n in (40, 61, 62, 63, 64, 65, 128, 300):
        for size in (0, 1, 30, 100):
            for qos in range(3):
                data = server_publish(topic_of(n), pattern(size), qos, 999) + h("40020003")
                for step in (0, 1, 2, 40):
                    got = decoded(data, step, 0, 64)
                    eq(len(got), 2)
                    eq(got[0][0], 3)
                    eq(got[0][1], 999 if qos else 0)
                    assert got[0][3] in (None, topic_of(n))
                    eq(got[0][4:], (size, pattern(size)))
                    eq(got[1], (4, 3, b""))


def test_topic_too_long_to_keep_is_split_inside_a_character():
    """[MQTT-1.5.3-1] A read may end within a character: any split gives the same events."""
    for character in ("c3a9", "e282ac", "f09f9880"):
        for ahead in range(4):
            topic = topic_of(ahead) + h(character) * (80 // (len(character) // 2))
            data = server_publish(topic, b"xyz", 1, 999) + h("40020003")
            events = [(3, 999, 2, None, 3, b"xyz"), (4, 3, b"")]
            for split in range(1, len(data)):
                eq(decoded(data, 0, split, 64), events)
            for step in (1, 2, 3, 5):
                eq(decoded(data, step, 0, 64), events)


def test_topic_kept_when_it_fits():
    """A packet that fits the buffer keeps its topic, whatever its length; a longer one if a byte of the payload fits
    behind it."""
    eq(decoded(server_publish(topic_of(58), b"ab"), 0, 0, 64)[0][3], topic_of(58))
    for n in (27, 45, 57, 58):
        eq(decoded(server_publish(topic_of(n), pattern(90)), 0, 0, 64)[0][3:], (topic_of(n), 90, pattern(90)))
    eq(decoded(server_publish(topic_of(60), pattern(90)), 0, 0, 64)[0][3:], (None, 90, pattern(90)))


# --- strictness ---


def refused(data, level=4, size=256):
    for step in (0, 1, 3):
        raises(ProtocolError, decoded, data, step, 0, size, level)


REFUSED = {
    # [MQTT-4.8.0-1] Reserved types, and types that only a client sends
    4: ["00 00", "f0 00", "c0 00", "e0 00", "10 02 0001", "82 05 0001 0001 61 00", "a2 05 0001 0001 61"]
    # Acknowledgements with another length than their own
    + ["%s %s" % (first, rest) for first in ("40", "50", "62", "70", "b0") for rest in ("00", "01 01", "03 000100")]
    + ["40 04 00010000", "b0 82 01" + "01" * 130]
    + ["20 00", "20 01 01", "90 00", "90 01 01", "90 02 0001", "d0 01 00", "d0 02 0000"]
    # at once, before the body arrives
    + ["40 7f", "20 ff ff ff 7f", "90 ff ff ff 7f", "d0 01"]
    # A remaining length of five bytes, without waiting for the fifth
    + [first + rest for first in ("30", "32", "40", "90", "d0") for rest in ("ffffffff", "ffffffff7f", "8080808000")]
    # Topics longer than their packet, empty topics, no space for the Message ID
    + ["30 00", "30 01 00", "30 02 0000", "30 02 0001", "30 03 0002 61", "30 03 ffff 61", "32 03 0001 61"]
    + ["32 04 0001 61 00", "34 04 0001 61 01", "32 02 0000", "32 04 0000 0001"]
    # the same in a packet longer than the buffer
    + ["30 e807 0000" + "00" * 100, "30 e807 ffff" + "00" * 100, "32 e807 03e7" + "00" * 100]
    + ["38 04 0001 61 78"],  # DUP at QoS 0
    3: ["40 03 000100", "d0 01 00", "90 02 0001", "20 01 00"],
}


def test_refused():
    """[MQTT-4.8.0-1] [MQTT-3.3.1-2] [MQTT-3.3.1-4] [MQTT31-10] [MQTT31-27] Types, lengths, DUP at QoS 0, which means
    nothing at level 3, and QoS 3 with every other flag."""
    for level in REFUSED:
        for text in REFUSED[level]:
            refused(h(text), level, 64)
        for flags in (6, 7, 14, 15):
            refused(bytes([0x30 | flags]) + server_publish(b"a", b"x", 2, 1)[1:], level)
    eq(decoded(server_publish(b"t", b"x", dup=1), level=3)[0][0], packet.PUBLISH)


def test_flags():
    """[MQTT-2.2.2-2] [MQTT-3.6.1-1] Each wrong value of the reserved bits."""
    for kind in (2, 4, 5, 6, 7, 9, 11, 13):
        good, text = 2 if kind == 6 else 0, {2: "02 0000", 9: "03 0001 00", 13: "00"}.get(kind, "02 0001")
        for flags in range(16):
            data = bytes([kind << 4 | flags]) + h(text)
            if flags == good:
                eq(decoded(data)[0][0], kind)
            else:
                refused(data)


def test_flags_at_level_3():
    """[MQTT31-17] [MQTT31-9] Bits that are "not used" are ignored; a repeated PUBREL has DUP."""
    eq(decoded(h("6a 02 0001"), level=3), [(6, 1, b"")])
    eq(decoded(h("41 02 0001 d8 00"), 1, level=3), [(4, 1, b""), (13, 0, b"")])


def test_message_id_0():
    """[MQTT-2.3.1-1] [MQTT31-8] Message ID 0, in each packet with a Message ID."""
    for text in ("40 02 0000", "50 02 0000", "62 02 0000", "70 02 0000", "90 03 0000 00", "b0 02 0000"):
        refused(h(text))
        refused(h(text), 3)
    for qos in (1, 2):
        for size in (0, 5, 300):
            refused(server_publish(b"a", pattern(size), qos, 0), 4, 64)
        refused(server_publish(topic_of(70), pattern(5), qos, 0), 4, 64)


ILL_FORMED = (
    "80,bf,c080,c1bf,c2,c241,e08080,e09fbf,e282,e28241,f0808080,f08fbfbf,f09f98,f4908080,f5808080,f888808080,fe,ff"
).split(",")
SURROGATES = "eda080,edadbf,edae80,edbfbf,eda0bdedb880".split(",")
CONTROLS = "01,1f,7f,c280,c29f".split(",")
NON_CHARACTERS = "efb790,efb7af,efbfbe,efbfbf,f09fbfbe,f48fbfbf".split(",")
GOOD = "20,7e,c2a0,dfbf,e0a080,ecbfbf,ed9fbf,ee8080,efb78f,efb7b0,efbbbf,efbfbd,f0908080,f09f9880,f48fbfbd".split(",")


def test_topics_ill_formed():
    """[MQTT-1.5.3-1] [MQTT31-7] Ill-formed UTF-8 and surrogates; a character that the payload's first bytes would
    complete."""
    refused(server_publish(b"\xe2\x82", b"\xac"))
    for text in ILL_FORMED + SURROGATES:
        for around in (b"", b"a", b"topic/"):
            refused(server_publish(around + h(text) + around, b"x"))
        refused(server_publish(b"a" + h(text)), 3)
        refused(server_publish(b"a" + h(text), pattern(300), 1), 4, 64)


def test_topics_that_are_refused():
    """[MQTT-1.5.3-2] [MQTT-4.7.3-2] [MQTT-3.3.2-2] [MQTT-4.7.1-1] U+0000 and wildcards anywhere in a topic name."""
    for topic in (b"\0", b"a\0", b"\0a", b"a/\0/b", b"#", b"+", b"a/#", b"a/+/b", b"a+", b"a#b"):
        refused(server_publish(topic, b"x"))
        refused(server_publish(topic, pattern(200), 2), 4, 64)


def test_topic_too_long_to_keep_is_checked_too():
    """[MQTT-1.5.3-1] [MQTT-3.3.2-2] The same rules apply to a topic that is not stored."""
    for bad in (b"#", b"\0", b"\xff", b"\xed\xa0\x80"):
        refused(server_publish(topic_of(100) + bad, b"x", 1), 4, 64)
        refused(server_publish(bad + topic_of(100), b"x", 1), 4, 64)


def test_valid_topics():
    """[MQTT-1.5.3-1] [MQTT-1.5.3-3] Valid topics close to the invalid ones; EF BB BF is an ordinary character. Control
    characters are accepted: if a retained message with one closed the connection, the device would stay offline."""
    for text in GOOD + CONTROLS + NON_CHARACTERS:
        topic = h(text) + b"a/" + h(text)
        for step in (0, 1):
            eq(decoded(server_publish(topic, b"x"), step), [(3, 0, 0, topic, 1, b"x")])
