"""MQTT packets as a server sends them, with and without invalid fields, generated from a Random."""

from tools.reference.kinds import PUBLISH, PUBREL, SUBACK
from tools.reference.wire import string

_KINDS = (2, 3, 3, 3, 3, 4, 5, 6, 7, 9, 11, 13)
_GOOD_TEXT = ("a", "a/b", "dev/command/ping", "", "/", "$SYS/x", "ü", "温度/1", "😀")
_LONG_TEXT = ("x" * 40, "long/" * 30)
# Wildcards, control characters, and ill-formed UTF-8: overlong, surrogates, too large, incomplete, non-characters.
_BAD_TEXT = [
    "23",
    "2b",
    "00",
    "1f",
    "7f",
    "c280",
    "c080",
    "eda080",
    "f4908080",
    "f8888080",
    "e282",
    "ff",
    "efbfbe",
    "efb790",
]


def varint(n, digits=1):
    """A remaining length with at least so many digits."""
    out = bytearray()
    while n or len(out) < digits:
        out.append(n & 127 | 128)
        n >>= 7
    out[-1] &= 127
    return bytes(out)


def text(rng):
    if rng.random() < 0.9:
        return rng.choice(_GOOD_TEXT if rng.random() < 0.9 else _LONG_TEXT).encode()
    data = bytes.fromhex(rng.choice(_BAD_TEXT))
    return rng.choice((b"", b"a/")) + data + rng.choice((b"", b"z"))


def mid(rng):
    return rng.choice((1, 2, 3, 4, 5, 9, 255, 256, 65535, rng.randrange(65536))).to_bytes(2, "big")


def _publish(rng):
    qos = rng.randrange(3)
    flags = qos << 1 | rng.randrange(2) | (8 if qos and rng.random() < 0.3 else 0)
    size = rng.choice((0, 1, 2, 5, 10, 20)) if rng.random() < 0.95 else rng.randrange(700)
    payload = rng.choice((rng.randbytes, lambda n: b"\x40\x02\x00\x01" * (n // 4)))(size)
    return flags, string(text(rng) or b"t") + (mid(rng) if qos else b"") + payload


def _body(rng, kind):
    if kind == PUBLISH:
        return _publish(rng)
    flags = 2 if kind == PUBREL else 0
    if kind == 2:
        return flags, bytes((rng.choice((0, 0, 0, 1)), rng.choice((0, 0, 0, 0, 3, 5))))
    if kind == 13:
        return flags, b""
    return flags, mid(rng) + (bytes(rng.choices((0, 1, 2, 128), k=rng.choice((1, 1, 2, 9)))) if kind == SUBACK else b"")


def packet(rng, wrong=0.2, kinds=_KINDS, make=_body):
    """One packet of these kinds, whose flags and body make() gives; the share `wrong` of packets has an invalid
    field."""
    kind = rng.choice(kinds)
    flags, body = make(rng, kind)
    if rng.random() >= wrong:
        return bytes((kind << 4 | flags,)) + varint(len(body)) + body
    n, digits = len(body), 1
    how = rng.randrange(9)
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
        body = with_a_bit_flipped(rng, body)
    else:
        body += rng.randbytes(rng.randrange(1, 5))
        n = len(body)
    return bytes((kind << 4 | flags,)) + varint(n, digits) + body


def with_a_bit_flipped(rng, data):
    out = bytearray(data)
    if out:
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def stream(rng, most=2, make=packet):
    """A sequence of packets, sometimes incomplete."""
    wrong = rng.choice((0, 0.1, 0.5))
    data = b"".join(make(rng, wrong) for _ in range(rng.randrange(1, most + 1)))
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data
