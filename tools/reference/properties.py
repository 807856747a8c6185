"""Properties of MQTT 5: where they may stand, their bytes, and a reader that checks them. Runs on MicroPython."""

import struct

from tools.reference.kinds import AUTH, CONNACK, CONNECT, DISCONNECT, PUBLISH, SUBSCRIBE, UNSUBSCRIBE

FORMS = {}  # id: bytes of a number, or var, text, data, pair
for _form, _ids in (
    (1, b"\x01\x17\x19\x24\x25\x28\x29\x2a"),
    (2, b"\x13\x21\x22\x23"),
    (4, b"\x02\x11\x18\x27"),
    ("var", b"\x0b"),
    ("text", b"\x03\x08\x12\x15\x1a\x1c\x1f"),
    ("data", b"\x09\x16"),
    ("pair", b"\x26"),
):
    for _id in _ids:
        FORMS[_id] = _form

# By packet: those that a client may send, and those that a server may. [MQTT5-2.2.2-1]
WILL = 0  # of a CONNECT
ACK = b"\x1f\x26"  # of all packets that are not in the tables
OF_CLIENT = {
    CONNECT: b"\x11\x15\x16\x17\x19\x21\x22\x26\x27",
    WILL: b"\x01\x02\x03\x08\x09\x18\x26",
    PUBLISH: b"\x01\x02\x03\x08\x09\x23\x26",  # [MQTT5-3.3.4-6]
    SUBSCRIBE: b"\x0b\x26",
    UNSUBSCRIBE: b"\x26",
    DISCONNECT: b"\x11\x1f\x26",
    AUTH: b"\x15\x16\x1f\x26",
}
OF_SERVER = {  # to a client that allows no topic alias
    CONNACK: b"\x11\x12\x13\x15\x16\x1a\x1c\x1f\x21\x22\x24\x25\x26\x27\x28\x29\x2a",
    PUBLISH: b"\x01\x02\x03\x08\x09\x0b\x26",
    DISCONNECT: b"\x1c\x1f\x26",
    AUTH: b"\x15\x16\x1f\x26",
}
_NOT_ZERO = b"\x0b\x21\x23\x27"


def variable(n):
    """A variable byte integer, in the shortest form."""
    digits = bytearray()
    while True:
        digits.append(n & 0x7F | (0x80 if n > 127 else 0))
        n >>= 7
        if not n:
            return bytes(digits)


def string(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">H", len(data)) + data


def encoded(kind, value):
    """The bytes of a property's value."""
    form = FORMS[kind]
    if form == "pair":
        return string(value[0]) + string(value[1])
    if form == "var":
        return variable(value)
    return string(value) if form in ("text", "data") else value.to_bytes(form, "big")


def block(*pairs):
    """The block of properties with these (id, value), as bytes with its length."""
    data = b"".join([bytes((kind,)) + encoded(kind, value) for kind, value in pairs])
    return variable(len(data)) + data


def _value(f, form):
    if form == "pair":
        return f.text(), f.text()
    if form == "var":
        return f.variable()
    if form == "text":
        return f.text()
    return f.data() if form == "data" else int.from_bytes(f.take(form), "big")


def read(f, packet, places, violation):
    """The properties that stand next in the fields f of a packet: [(id, value)]. places: OF_CLIENT or OF_SERVER. Raises
    violation."""
    left = f.variable()
    end = len(f.body) - left
    if end < 0:
        raise violation("properties longer than their packet: %r" % f.body[:40])
    repeated = b"\x0b\x26" if places is OF_SERVER else b"\x26"
    found = []
    while len(f.body) > end:
        kind = f.variable()
        if kind not in FORMS or kind not in places.get(packet, ACK):
            raise violation("property %#x is out of place" % kind)
        if kind not in repeated and kind in [other for other, _ in found]:
            raise violation("property %#x comes twice" % kind)
        value = _value(f, FORMS[kind])
        if (FORMS[kind] == 1 and value > 1) or (kind in _NOT_ZERO and not value):
            raise violation("property %#x is %r" % (kind, value))
        if kind == 0x08 and (not value or "+" in value or "#" in value):
            raise violation("response topic %r" % value)
        found.append((kind, value))
    if len(f.body) != end:
        raise violation("a property is longer than its block")
    return found
