"""MQTT packets of level 5 as a server sends them, with and without invalid fields, generated from a Random."""

from tools.fuzz import packets
from tools.reference.kinds import AUTH, CONNACK, DISCONNECT, PINGRESP, PUBLISH, PUBREL, SUBACK, UNSUBACK
from tools.reference.properties import FORMS, block, variable
from tools.reference.wire import string

_KINDS = (2, 3, 3, 3, 3, 4, 5, 6, 7, 9, 11, 13, 14, 15)
_ACK = (0x1F, 0x26)
_IDS = {
    CONNACK: (0x11, 0x12, 0x13, 0x1A, 0x1C, 0x1F, 0x21, 0x22, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2A),
    PUBLISH: (0x01, 0x02, 0x03, 0x08, 0x09, 0x0B, 0x26, 0x26),
    DISCONNECT: (0x1C, 0x1F, 0x26),
    AUTH: (0x15, 0x16, 0x1F, 0x26),
}
_CODES = (0, 0, 0, 0, 1, 0x10, 0x18, 0x80, 0x87, 0x91, 0x92, 0x93, 0x95, 0x97, 0x9D, 0xFF)


def _value(rng, kind):
    form = FORMS[kind]
    if form == "byte":
        return rng.randrange(2)
    if form in ("two", "four", "var"):
        return rng.choice((1, 2, 5, 30, 127, 128, 300, 16384, 60000))
    if form == "pair":
        return packets.text(rng), packets.text(rng)
    return packets.text(rng) or b"t"


def properties(rng, kind):
    """A block for a packet of this type, now and then one that does not belong there."""
    ids = _IDS.get(kind, _ACK)
    if rng.random() < 0.5:
        return b"\0"
    chosen = [rng.choice(ids) for _ in range(rng.randrange(1, 4))]
    how = rng.random()
    if how < 0.85:
        chosen = [number for i, number in enumerate(chosen) if number in (0x0B, 0x26) or number not in chosen[:i]]
    elif how < 0.9:
        chosen.append(rng.choice(list(FORMS)))
    found = block(*((number, _value(rng, number)) for number in chosen))
    if rng.random() < 0.1:
        found = packets.with_a_bit_flipped(rng, found)
    if rng.random() < 0.03:
        found = packets.varint(len(found) - 1, rng.randrange(2, 6)) + found[1:]
    return found


def _body(rng, kind):
    if kind == PUBLISH:
        qos = rng.randrange(3)
        flags = qos << 1 | rng.randrange(2) | (8 if qos and rng.random() < 0.3 else 0)
        size = rng.choice((0, 1, 2, 5, 10, 20)) if rng.random() < 0.9 else rng.randrange(700)
        head = string(packets.text(rng) or b"t") + (packets.mid(rng) if qos else b"")
        return flags, head + properties(rng, kind) + rng.randbytes(size)
    flags = 2 if kind == PUBREL else 0
    if kind == PINGRESP:
        return flags, b""
    code = bytes((rng.choice(_CODES),))
    if kind == CONNACK:
        return flags, bytes((rng.choice((0, 0, 0, 1)),)) + code + properties(rng, kind)
    if kind in (SUBACK, UNSUBACK):
        codes = bytes(rng.choices((0, 1, 2, 0x11, 0x80, 0x87), k=rng.choice((1, 1, 2, 9))))
        return flags, packets.mid(rng) + properties(rng, kind) + codes
    if rng.random() < 0.03:  # longer than the buffer
        text = b"x" * rng.randrange(40, 300)
        long = code + variable(len(text) + 3) + b"\x1f" + string(text)
        return flags, (b"" if kind > PINGRESP else packets.mid(rng)) + long
    rest = rng.choice((b"", b"", code, code + properties(rng, kind)))
    return flags, (b"" if kind > PINGRESP else packets.mid(rng)) + rest


def packet(rng, wrong=0.2):
    """One packet; the share `wrong` of packets has an invalid field."""
    return packets.packet(rng, wrong, _KINDS, _body)


def stream(rng):
    """A sequence of packets, sometimes incomplete."""
    return packets.stream(rng, make=packet)
