"""Generates inputs of each target. Every function has an argument random.Random and returns bytes."""

from tools.fuzz.packets import packet, stream

_LEVELS = (b"", b"a", b"b", b"+", b"#", b"a+", b"$SYS", b"\xc3\xbc", b"\xff", b"\0", b"long" * 9)


def decoder(rng):
    return bytes((rng.randrange(256),)) + stream(rng)


def decoder5(rng):
    return bytes((rng.randrange(256),)) + stream(rng, 5)


def topic(rng):
    names = [b"/".join(rng.choices(_LEVELS, k=rng.randrange(1, 5))) for _ in range(2)]
    if rng.random() < 0.5:  # with the same levels, so that some match
        names[1] = b"/".join(level if level not in b"+#" else b"c/d" for level in names[0].split(b"/"))
    return bytes((len(names[0]) & 255,)) + names[0] + names[1]


def _history(rng):
    # Steps for worn_flash.History, most of which write.
    steps = []
    for _ in range(rng.randrange(24)):
        kind = rng.random()
        if kind < 0.6:
            steps.append(rng.randrange(0x80))
        elif kind < 0.8:
            steps.append(rng.randrange(0x80, 0xD8))
        elif kind < 0.85:
            steps += (rng.randrange(0xD8, 0xE8), rng.randrange(256), rng.randrange(256), rng.randrange(256))
        else:
            steps.append(rng.randrange(0xE8, 0x100))
    return steps[:63]


def mount(rng):
    steps = _history(rng)
    damages = rng.randbytes(rng.choice((0, 4, 4, 8, 8, 16, 40)))
    if rng.random() < 0.05:  # no journal
        steps, damages = [], b"\x0a\x00\x00" + bytes((255,)) + rng.randbytes(255) + damages
    return bytes((rng.randrange(256), len(steps), *steps)) + damages


def session(rng):
    return _session(rng, 4, _to)


def session5(rng):
    return _session(rng, 5, _to_5)


def calls(rng):
    # Most arguments are right, so that messages wait when something happens.
    out = bytearray((rng.randrange(256),))
    for _ in range(rng.randrange(40)):
        out.append(rng.choice((0, 1, rng.randrange(16))))
        for _ in range(5 if out[-1] < 5 else rng.randrange(4)):
            out.append(rng.randrange(256) & (255 if rng.random() < 0.2 else 0xFB))
    return bytes(out)


def _session(rng, level, to):
    properties = b"\0" if level == 5 else b""
    out = bytearray((rng.randrange(256), *(rng.randrange(0x80, 0xA0) for _ in range(rng.randrange(4)))))
    for _ in range(rng.randrange(1, 5)):
        out.append(0xA0 | rng.choice((0, 1, 1, 2)))
        for _ in range(rng.randrange(8)):
            out += _move(rng, level, to)
        if rng.random() < 0.1:  # a full journal, and a broker that sends no PUBREL
            out += bytes(rng.choices((0x80, 0x81, 0x9E, 0x9F), k=8)) + b"".join(
                bytes((8 + len(properties), 0x34, 6 + len(properties))) + b"\0\1t\0" + bytes((k,)) + properties + b"x"
                for k in range(1, rng.randrange(2, 24))
            )
        if rng.random() < 0.2:
            out.append(rng.randrange(0xC0, 0xD0))
    return bytes(out)


def _move(rng, level, to):
    kind = rng.random()
    if kind < 0.4:
        said = (packet(rng, 0.05, level) if rng.random() < 0.8 else to(rng))[:0x7F]
        return bytes((len(said),)) + said
    return bytes((rng.randrange(0xD0, 0xE0) if kind < 0.7 else rng.randrange(0x80, 0xC8),))


def _to(rng):
    # QoS 2 with few Message IDs, so that there are repetitions.
    number = b"\0" + bytes((rng.randrange(1, 4),))
    if rng.random() < 0.5:
        return b"\x62\x02" + number
    return bytes((0x34 | rng.choice((0, 8)),)) + b"\x06\x00\x01t" + number + b"x"


def _to_5(rng):
    # Refusals besides, also a DISCONNECT with 95.
    number = b"\0" + bytes((rng.randrange(1, 4),))
    how = rng.random()
    if how < 0.3:
        return b"\x62\x02" + number
    if how < 0.6:
        return bytes((0x34 | rng.choice((0, 8)),)) + b"\x07\x00\x01t" + number + b"\0x"
    if how < 0.9:
        answer = bytes((rng.choice((0x40, 0x50)), 3)) + number
        return answer + bytes((rng.choice((0x80, 0x87, 0x91, 0x93, 0x97, 0x99)),))
    return b"\xe0\x01\x95"


_COMMANDS = (b"ping", b"interval", b"reboot", b"", b"?", b"a/b", b"x" * 200, b"\xc3\xbc" * 30)
_PAYLOADS = (b"", b"5000", b"0", b"-1", b"1e9", b"9" * 400, b"\xff\xfe", b"{}", b"\0", b" 7 ", b'"\\', b"1_000")


def firmware(rng):
    if rng.random() < 0.3:  # fields of a configuration and their values
        return b"\0" + bytes(rng.randrange(256) for _ in range(2 * rng.randrange(9)))
    if rng.random() < 0.2:
        text = b'{"host": "h", "sensors": [{"driver": "dht22", "pin": 4}], "password": "p", "user": "u"}'
        at = rng.randrange(len(text))
        return b"\1" + text[:at] + rng.randbytes(rng.randrange(3)) + text[at + rng.randrange(3) :]
    topic = rng.choice((b"", b"", b"", b"other/", b"inflight/box/"))
    topic += rng.choice((b"", b"command/")) + rng.choice(_COMMANDS)
    payload = rng.choice(_PAYLOADS) if rng.random() < 0.7 else rng.randbytes(rng.randrange(40))
    return bytes((2 | rng.randrange(64) << 2, len(topic) & 255)) + topic + payload


_NOISE = (b"", b">>> \r\n", b"I", b"IMPROV", b"\xff\0", b"\3")
_LABELS = (b"\1x", b"\7example", b"\3org", b"\x3f" + b"y" * 63, b"\xc0\x0c", b"\x40", b"\5\0\xff.\n ")
_HEADERS = (
    b"Host: 192.168.4.1", b"host:x", b"Origin: http://x", b"Content-Length: 5", b"Content-Length: -1",
    b"content-length: 1048577", b"Content-Length: \xc2\xb2", b"Content-Length: 0005", b"Content-Length:",
    b"Transfer-Encoding: chunked", b"X: " + b"y" * 900, b":", b"", b"\xff",
)  # fmt: skip
_REQUESTS = (b"GET / HTTP/1.1", b"POST /?a HTTP/1.0", b"GET x HTTP/1.1", b"GET / HTTP/2", b"", b"GET  / HTTP/1.1")


def setup(rng):
    kind = rng.randrange(4)
    out = bytes((kind | rng.randrange(64) << 2,)) + (_improv, _dns, _http, _wifi)[kind](rng)
    if rng.random() < 0.3:  # one byte is another one
        at = rng.randrange(len(out))
        out = out[:at] + rng.randbytes(1) + out[at + 1 :]
    return out if rng.random() < 0.9 else out[: rng.randrange(len(out) + 1)]


def _wifi(rng):
    words = rng.choices((b"", b"net", b"\xff"), k=2)
    return b"".join(bytes((len(word) + (rng.random() < 0.05),)) + word for word in words)


def _improv(rng):
    out = b""
    for _ in range(rng.randrange(4)):
        data = rng.choice((_wifi(rng), b"", rng.randbytes(rng.randrange(20))))
        body = bytes((rng.randrange(6), len(data))) + data
        packet = b"IMPROV\1" + bytes((rng.choice((3, 3, 3, 1)), len(body))) + body
        out += rng.choice(_NOISE) + packet + bytes((sum(packet) & 255,))
    return out


def _dns(rng):
    head = rng.randbytes(2) + rng.choice((b"\1\0", b"\0\0", b"\x81\0")) + b"\0\1" + bytes(6)
    name = b"".join(rng.choices(_LABELS, (9, 9, 9, 3, 1, 1, 3), k=rng.randrange(6))) + b"\0"
    return head + name + rng.choice((b"\0\1\0\1", b"\0\x1c\0\1", b"\0\1\0\3", b"")) + rng.choice((b"", bytes(11)))


def _http(rng):
    lines = [rng.choice(_REQUESTS[:2] if rng.random() < 0.8 else _REQUESTS)]
    lines += rng.choices(_HEADERS, k=rng.randrange(5))
    return b"\r\n".join(lines) + rng.choice((b"\r\n\r\n", b"\r\n\r\nbody ", b"\r\n"))
