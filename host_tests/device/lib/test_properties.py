# Properties of MQTT 5: those that arrive, walked where they stand; those that leave, built ahead of time.

from harness import eq, raises
from inflight.level5.cursor import ALIAS, IN_ACK, IN_AUTH, IN_CONNACK, IN_DISCONNECT, IN_PUBLISH, Cursor
from inflight.level5.properties5 import properties
from inflight.packet import ERROR, MALFORMED, ProtocolError
from tools.reference.kinds import AUTH, CONNACK, DISCONNECT, PUBACK, PUBLISH
from tools.reference.properties import ACK, FORMS, OF_SERVER, encoded

RUNTIMES = "cpython micropython-x64 micropython-x86 micropython-wasm"
MORE_RUNTIMES = "micropython-armhf"
PLACES = {CONNACK: IN_CONNACK, PUBLISH: IN_PUBLISH, PUBACK: IN_ACK, DISCONNECT: IN_DISCONNECT, AUTH: IN_AUTH}
VALUES = {"pair": ("", "v"), "var": 128, "text": "t", "data": b"\x00\xff"}
ALLOWED = {}  # id: (a value, where it may stand): the table of the standard, 2.2.2.2
for _kind in FORMS:
    _places = [where for packet, where in PLACES.items() if _kind in OF_SERVER.get(packet, ACK)]
    if _places:
        ALLOWED[_kind] = encoded(_kind, VALUES.get(FORMS[_kind], 1)), _places


def block(data):
    """`data` behind its length."""
    n = len(data)
    return (bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7])) + data


def walk(data, where):
    """[(id, value)] of a block, checked first."""
    data = b"xx" + data + b"payload"
    cursor = Cursor(data)
    end = len(data) - 7
    eq(cursor.check(2, len(data), where), end)
    cursor.start(2, len(data), where)
    found = []
    kind = cursor.next()
    while kind:
        found.append((kind, data[cursor.at : cursor.at + cursor.n]))
        kind = cursor.next()
    return found


def refused(data, where, code):
    """The block is refused with this reason code."""
    error = raises(ProtocolError, Cursor(data).check, 0, len(data), where)
    eq((data, error.reason_code), (data, code))


def test_each_in_its_place():
    """[MQTT5-2.2.2-1] Each property alone; where it may not stand, and ids that do not exist, are refused."""
    for kind in range(256):
        if kind == ALIAS:
            continue
        value, places = ALLOWED.get(kind, (b"\x00\x01x", ()))
        for where in PLACES.values():
            data = block(bytes([kind]) + value)
            if where in places:
                eq(walk(data, where)[0][0], kind)
            else:
                refused(data, where, ERROR if places else MALFORMED)
    eq(walk(b"\x00", IN_ACK), [])


def test_topic_alias():
    """[MQTT5-3.1.2-26] [MQTT5-3.1.2-27] [MQTT5-3.3.2-8] [MQTT5-3.3.2-11] No CONNECT allows any: 0, 1 and 65535 are
    refused."""
    for value in (b"\x00\x00", b"\x00\x01", b"\xff\xff"):
        refused(block(b"\x23" + value), IN_PUBLISH, 0x94)
        refused(block(b"\x23" + value), IN_CONNACK, ERROR)


def test_once():
    """Twice is a protocol error, but for user properties and subscription identifiers. [MQTT5-3.3.4-4]"""
    for kind in ALLOWED:
        value, places = ALLOWED[kind]
        data = block(2 * (bytes([kind]) + value))
        for where in places:
            if kind in (0x0B, 0x26):
                eq(len(walk(data, where)), 2)
            else:
                refused(data, where, ERROR)


def test_cut_short():
    """A value that its block does not hold, and a block that its packet does not hold."""
    for kind in ALLOWED:
        value, places = ALLOWED[kind]
        for n in range(len(value)):
            refused(block(bytes([kind]) + value[:n]), places[0], MALFORMED)
    for data in (b"", b"\x01", b"\x80", b"\x80\x80", b"\x05\x26\x00\x00\x00"):
        refused(data, IN_PUBLISH, MALFORMED)


def test_shortest_lengths():
    """[MQTT5-1.5.5-1] Longer forms of a length are malformed, and so are five bytes."""
    for data in (b"\x80\x00", b"\x85\x80\x00", b"\xff\xff\xff\xff\x01"):
        refused(data, IN_PUBLISH, MALFORMED)
    for value in (b"\x81\x00", b"\xff\xff\xff\xff\x01", b"\x80"):
        refused(block(b"\x0b" + value), IN_PUBLISH, MALFORMED)
    long = b"\x26\x00\x01n\x00\xc8" + bytes([118]) * 200
    eq(walk(block(long), IN_ACK), [(0x26, long[1:])])


def test_values():
    """Values that the standard refuses."""
    for data in (b"\x01\x02", b"\x08\x00\x00", b"\x08\x00\x03a/#", b"\x08\x00\x01+", b"\x0b\x00"):
        refused(block(data), IN_PUBLISH, ERROR)
    for kind in (0x24, 0x25, 0x28, 0x29, 0x2A):
        refused(block(bytes([kind, 2])), IN_CONNACK, ERROR)
    refused(block(b"\x21\x00\x00"), IN_CONNACK, ERROR)
    refused(block(b"\x27\x00\x00\x00\x00"), IN_CONNACK, ERROR)


def test_texts():
    """[MQTT5-1.5.4-1] [MQTT5-1.5.4-2] [MQTT5-1.5.7-1] Ill-formed UTF-8 and U+0000 are malformed, in both texts of a
    pair; binary data may be anything."""
    for bad in (b"\x00\x01\x00", b"\x00\x01\x80", b"\x00\x03\xed\xa0\x80", b"\x00\x02\xc0\x80"):
        refused(block(b"\x1f" + bad), IN_ACK, MALFORMED)
        refused(block(b"\x26" + bad + b"\x00\x01v"), IN_ACK, MALFORMED)
        refused(block(b"\x26\x00\x01n" + bad), IN_ACK, MALFORMED)
        eq(walk(block(b"\x09" + bad), IN_PUBLISH), [(9, bad[2:])])


def test_values_that_are_asked_for():
    """Texts, numbers, pairs in order and with repeated names."""
    data = block(b"\x26\x00\x01a\x00\x01b\x02\xff\xff\xff\xff\x03\x00\x02\xc3\xa4\x09\x00\x01\x00\x26\x00\x01a\x00\x00")
    cursor = Cursor(memoryview(data))
    for kind, name, value in ((2, "number", 0xFFFFFFFF), (3, "text", "\xe4"), (9, "data", b"\x00")):
        cursor.start(0, len(data), IN_PUBLISH)
        assert cursor.find(kind)
        eq(getattr(cursor, name)(), value)
    cursor.start(0, len(data), IN_PUBLISH)
    pairs = []
    while cursor.find(0x26):
        pairs.append(cursor.pair())
    eq(pairs, [("a", "b"), ("a", "")])
    cursor.start(0, len(data), IN_PUBLISH)
    assert not cursor.find(8)


def test_built():
    """What is built is read again; the expiry interval leads."""
    p = properties(
        content_type="t", response_topic="r/s", correlation=b"\x00", text=True, user=(("a", "b"), ("a", "")), expiry=258
    )
    eq(p.block[1:6], b"\x02\x00\x00\x01\x02")
    pairs = [(0x26, b"\x00\x01a\x00\x01b"), (0x26, b"\x00\x01a\x00\x00")]
    wanted = [(2, b"\x00\x00\x01\x02"), (1, b"\x01"), (3, b"t"), (8, b"r/s"), (9, b"\x00")] + pairs
    eq(walk(p.block, IN_PUBLISH), wanted)
    assert p.expiry == 258 and not p.will
    eq(properties().block, b"\0")
    eq(len(properties(correlation=bytes(124)).block), 128)
    p = properties(will_delay=0)
    eq(p.block, b"\x05\x18\x00\x00\x00\x00")
    assert p.will and not p.expiry
