"""MQTT packets as a server sends them, with and without invalid fields, generated from a Random."""

from tools.reference.kinds import AUTH, CONNACK, DISCONNECT, PINGRESP, PUBCOMP, PUBLISH, PUBREL, SUBACK, UNSUBACK
from tools.reference.properties import ACK, FORMS, OF_SERVER, block, string, variable

_KINDS = (CONNACK, *[PUBLISH] * 4, *range(4, PUBCOMP + 1), SUBACK, UNSUBACK, PINGRESP)
_KINDS_5 = (*_KINDS, DISCONNECT, AUTH)
_CODES = (0, 0, 0, 0, 1, 0x10, 0x18, 0x80, 0x87, 0x91, 0x92, 0x93, 0x95, 0x97, 0x9D, 0xFF)
_GOOD_TEXT = ("a", "a/b", "dev/command/ping", "", "/", "$SYS/x", "ü", "温度/1", "😀")
_LONG_TEXT = ("x" * 40, "long/" * 30)
# Wildcards, control characters, and ill-formed UTF-8: overlong, surrogates, too large, incomplete, non-characters.
_BAD_TEXT = "23 2b 00 1f 7f c280 c080 eda080 f4908080 f8888080 e282 ff efbfbe efb790".split()


def _digits(n, least):
    """A variable byte integer with at least so many digits."""
    out = bytearray(variable(n))
    while len(out) < least:
        out[-1] |= 128
        out.append(0)
    return bytes(out)


def _text(rng):
    if rng.random() < 0.9:
        return rng.choice(_GOOD_TEXT if rng.random() < 0.9 else _LONG_TEXT).encode()
    data = bytes.fromhex(rng.choice(_BAD_TEXT))
    return rng.choice((b"", b"a/")) + data + rng.choice((b"", b"z"))


def _mid(rng):
    return rng.choice((1, 2, 3, 4, 5, 9, 255, 256, 65535, rng.randrange(65536))).to_bytes(2, "big")


def _value(rng, kind):
    form = FORMS[kind]
    if form == 1:
        return rng.randrange(2)
    if form in (2, 4, "var"):
        return rng.choice((1, 2, 5, 30, 127, 128, 300, 16384, 60000))
    return (_text(rng), _text(rng)) if form == "pair" else _text(rng) or b"t"


def _properties(rng, kind):
    """A block for a packet of this type, now and then one that does not belong there."""
    if rng.random() < 0.5:
        return b"\0"
    chosen = rng.choices(OF_SERVER.get(kind, ACK), k=rng.randrange(1, 4))
    how = rng.random()
    if how < 0.85:
        chosen = [number for i, number in enumerate(chosen) if number in (0x0B, 0x26) or number not in chosen[:i]]
    elif how < 0.9:
        chosen.append(rng.choice(list(FORMS)))
    found = block(*((number, _value(rng, number)) for number in chosen))
    if rng.random() < 0.1:
        found = _with_a_bit_flipped(rng, found)
    if rng.random() < 0.03:
        found = _digits(len(found) - 1, rng.randrange(2, 6)) + found[1:]
    return found


def _body(rng, kind, level):
    """(flags, body)"""
    properties = _properties(rng, kind) if level == 5 else b""
    if kind == PUBLISH:
        qos = rng.randrange(3)
        flags = qos << 1 | rng.randrange(2) | (8 if qos and rng.random() < 0.3 else 0)
        size = rng.choice((0, 1, 2, 5, 10, 20)) if rng.random() < 0.95 else rng.randrange(700)
        payload = rng.choice((rng.randbytes, lambda n: b"\x40\x02\x00\x01" * (n // 4)))(size)
        return flags, string(_text(rng) or b"t") + (_mid(rng) if qos else b"") + properties + payload
    if kind == CONNACK:
        code = rng.choice(_CODES if level == 5 else (0, 0, 0, 0, 3, 5))
        return 0, bytes((rng.choice((0, 0, 0, 1)), code)) + properties
    if kind == PINGRESP:
        return 0, b""
    flags, mid = 2 if kind == PUBREL else 0, _mid(rng) if kind < PINGRESP else b""
    if kind == SUBACK or (kind == UNSUBACK and level == 5):
        return flags, mid + properties + bytes(rng.choices((0, 1, 2, 0x11, 0x80, 0x87), k=rng.choice((1, 1, 2, 9))))
    if level < 5:
        return flags, mid
    code = bytes((rng.choice(_CODES),))
    if rng.random() < 0.03:  # longer than the buffer
        return flags, mid + code + block((0x1F, b"x" * rng.randrange(40, 300)))
    return flags, mid + rng.choice((b"", b"", code, code + properties))


def packet(rng, wrong=0.2, level=4):
    """One packet; the share `wrong` of packets has an invalid field."""
    kind = rng.choice(_KINDS_5 if level == 5 else _KINDS)
    flags, body = _body(rng, kind, level)
    n, digits = len(body), 1
    how = rng.randrange(9) if rng.random() < wrong else -1
    if how == 0:
        kind = rng.randrange(16)
    elif how == 1:
        flags = rng.randrange(16)
    elif how == 2:
        n = max(0, n + rng.choice((-3, -2, -1, 1, 2, 3, 200)))
    elif how == 3:
        n = rng.choice((0, 1, 2, 127, 128, 16383, 16384, 2097151, 2097152, 268435455))
    elif how == 4:
        digits = rng.randrange(2, 6)  # five are invalid
    elif how == 5:
        body = body[: rng.randrange(len(body) + 1)]
    elif how == 6 and len(body) > 1:
        body = rng.choice((b"\0\0", b"\xff\xff", len(body).to_bytes(2, "big"))) + body[2:]
    elif how == 7:
        body = _with_a_bit_flipped(rng, body)
    elif how > 5:
        body += rng.randbytes(rng.randrange(1, 5))
        n = len(body)
    return bytes((kind << 4 | flags,)) + _digits(n, digits) + body


def _with_a_bit_flipped(rng, data):
    out = bytearray(data)
    if out:
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def stream(rng, level=4):
    """One packet or two, sometimes incomplete."""
    wrong = rng.choice((0, 0.1, 0.5))
    data = b"".join(packet(rng, wrong, level) for _ in range(rng.randrange(1, 3)))
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data
