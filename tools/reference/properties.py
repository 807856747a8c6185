"""Properties of MQTT 5: a server's, as bytes, and a client's, checked. Runs on MicroPython."""

import struct

FORMS = {}  # id: byte, two, four, var, text, data or pair
for _form, _ids in (
    ("byte", b"\x01\x17\x19\x24\x25\x28\x29\x2a"),
    ("two", b"\x13\x21\x22\x23"),
    ("four", b"\x02\x11\x18\x27"),
    ("var", b"\x0b"),
    ("text", b"\x03\x08\x12\x15\x1a\x1c\x1f"),
    ("data", b"\x09\x16"),
    ("pair", b"\x26"),
):
    for _id in _ids:
        FORMS[_id] = _form

# Where a client may have them.
CONNECT = b"\x11\x15\x16\x17\x19\x21\x22\x26\x27"
WILL = b"\x01\x02\x03\x08\x09\x18\x26"
PUBLISH = b"\x01\x02\x03\x08\x09\x23\x26"  # [MQTT5-3.3.4-6]
ACK = b"\x1f\x26"
SUBSCRIBE = b"\x0b\x26"
UNSUBSCRIBE = b"\x26"
DISCONNECT = b"\x11\x1f\x26"
AUTH = b"\x15\x16\x1f\x26"

_NOT_ZERO = b"\x0b\x21\x23\x27"


def variable(n):
    """A variable byte integer, in the shortest form."""
    digits = bytearray()
    while True:
        digits.append(n & 0x7F | (0x80 if n > 127 else 0))
        n >>= 7
        if not n:
            return bytes(digits)


def _string(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">H", len(data)) + data


def _value(kind, value):
    form = FORMS[kind]
    if form == "pair":
        return _string(value[0]) + _string(value[1])
    if form in ("text", "data"):
        return _string(value)
    if form == "var":
        return variable(value)
    return struct.pack({"byte": ">B", "two": ">H", "four": ">I"}[form], value)


def block(*pairs):
    """The block of properties with these (id, value), as bytes with its length."""
    data = b"".join([bytes((kind,)) + _value(kind, value) for kind, value in pairs])
    return variable(len(data)) + data


# Not by a method's name in a string: where the library has its short names, this module has them too.
_READ = {
    "byte": lambda f: f.byte(),
    "two": lambda f: f.word(),
    "four": lambda f: f.four(),
    "var": lambda f: f.variable(),
    "text": lambda f: f.text(),
    "data": lambda f: f.data(),
}


def read(f, allowed, violation):
    """The properties that stand next in the fields f of a client's packet: [(id, value)]. Raises violation."""
    left = f.variable()
    end = len(f.body) - left
    if end < 0:
        raise violation("properties longer than their packet: %r" % f.body[:40])
    found = []
    while len(f.body) > end:
        kind = f.variable()
        if kind not in FORMS or kind not in allowed:
            raise violation("property %#x is out of place" % kind)
        if kind != 0x26 and kind in [other for other, _ in found]:
            raise violation("property %#x comes twice" % kind)
        form = FORMS[kind]
        if form == "pair":
            value = (f.text(), f.text())
        else:
            value = _READ[form](f)
        if (form == "byte" and value > 1) or (kind in _NOT_ZERO and not value):
            raise violation("property %#x is %r" % (kind, value))
        if kind == 0x08 and (not value or "+" in value or "#" in value):
            raise violation("response topic %r" % value)
        found.append((kind, value))
    if len(f.body) != end:
        raise violation("a property is longer than its block")
    return found
