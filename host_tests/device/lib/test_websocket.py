# The frames of a WebSocket, byte by byte; lib/test_websocket.py has the clients.

import os
from binascii import b2a_base64
from errno import EACCES, ECONNABORTED, ECONNREFUSED

from harness import SkipTest, allocated, eq, raises
from inflight.net.websocket import WebSocket, upgrade_steps
from inflight.packet import ProtocolError

try:
    from hashlib import sha1
except ImportError:
    sha1 = None

RUNTIMES = "cpython micropython-x64 micropython-x86 micropython-wasm"

BINARY, TEXT, CLOSE, PING, PONG = 2, 1, 8, 9, 10


class Stream:
    """A socket that has `data` to read, `chunk` bytes at a time, and None before each; it takes `takes` bytes of each
    write."""

    def __init__(self, data=b"", chunk=1 << 20, takes=1 << 20):
        self.data = data
        self.chunk = chunk
        self.takes = takes
        self.written = b""
        self.writes = 0
        self.closed = False
        self._ready = False

    def readinto(self, view, n):
        self._ready = self.chunk > 1000 or not self._ready
        if not self._ready or not self.data:
            return None
        n = min(n, self.chunk, len(self.data))
        view[:n] = self.data[:n]
        self.data = self.data[n:]
        return n

    def write(self, buf, at, n):
        n = min(n, self.takes)
        self.writes += 1
        self.written += bytes(buf[at : at + n])
        return n or None

    def close(self):
        self.closed = True


def frame(payload, kind=BINARY, fin=True):
    """A frame of a server."""
    n = len(payload)
    if n < 126:
        size = bytes([n])
    elif n < 65536:
        size = bytes([126, n >> 8, n & 255])
    else:
        size = bytes([127, 0, 0, 0, 0, n >> 24, n >> 16 & 255, n >> 8 & 255, n & 255])
    return bytes([(0x80 if fin else 0) | kind]) + size + payload


def frames(data):
    """[(kind, key, payload)] of what a client wrote: masked, whole, of the shortest length."""
    found = []
    while data:
        assert data[0] & 0xF0 == 0x80 and data[1] & 0x80, data[:2]
        n = data[1] & 127
        at = 2
        if n == 126:
            n = data[2] << 8 | data[3]
            at = 4
            assert n > 125
        key = data[at : at + 4]
        at += 4
        assert n < 127 or at == 8
        found.append((data[0] & 15, key, bytes([data[at + i] ^ key[i % 4] for i in range(n)])))
        data = data[at + n :]
    return found


def said(stream):
    return [(kind, payload) for kind, _, payload in frames(stream.written)]


def read(stream, size=64, turns=100000):
    """All that can be read through a WebSocket on `stream`."""
    websocket = WebSocket(stream)
    view = memoryview(bytearray(size))
    out = b""
    while stream.data and turns:
        turns -= 1
        n = websocket.readinto(view, size)
        out += bytes(view[: n or 0])
    return out


def write(stream, data):
    """Writes `data` as a client does."""
    websocket = WebSocket(stream)
    at = 0
    for _ in range(100000):
        if at == len(data):
            return
        at += websocket.write(data, at, len(data) - at) or 0
    raise AssertionError("never written")


LONG = bytes(range(256)) * 3


def test_bytes_are_the_same_however_they_are_framed():
    """[MQTT-6.0.0-2] [MQTT5-6.0.0-2] One frame, one for each byte, parts of a message, empty ones; each read whole or
    in pieces."""
    parts = b""
    for i in range(0, len(LONG), 5):
        parts += frame(LONG[i : i + 5], 0 if i else BINARY, i + 5 >= len(LONG))
    for data in (
        frame(LONG),
        b"".join([frame(LONG[i : i + 1]) for i in range(len(LONG))]),
        parts,
        frame(b"") + frame(LONG[:100]) + frame(b"") + frame(LONG[100:]) + frame(b""),
        frame(b"", BINARY, False) + frame(LONG, 0),
    ):
        for chunk, size in ((1, 4096), (7, 1), (1 << 20, 32), (1 << 20, 4096)):
            eq(read(Stream(data, chunk), size), LONG)


def test_long_frames():
    """Lengths in one, two and eight bytes."""
    for n in (0, 125, 126, 65535, 65536, 70000):
        eq(len(read(Stream(frame(bytes(n))), 5000)), n)


def test_frames_that_go_out():
    """Masked, with up to 256 bytes of payload in one frame and one write; longer ones in several. Where the socket
    takes little the frame goes on there: the same bytes are offered again until they are taken. The caller's are left
    alone."""
    for n in (1, 2, 3, 4, 5, 125, 126, 255, 256):
        for data in (LONG[:n], bytearray(LONG[:n]), memoryview(bytearray(LONG[:n]))):
            stream = Stream()
            write(stream, data)
            eq((stream.writes, said(stream), bytes(data)), (1, [(BINARY, LONG[:n])], LONG[:n]))
    for takes in (1, 3, 100, 1 << 20):
        stream = Stream(takes=takes)
        write(stream, LONG[:600])
        eq(said(stream), [(BINARY, LONG[:256]), (BINARY, LONG[256:512]), (BINARY, LONG[512:600])])
    stream = Stream(takes=0)
    eq(WebSocket(stream).write(LONG, 0, 10), None)
    eq(stream.written, b"")
    stream = Stream(frame(b"", PING), takes=1)
    websocket = WebSocket(stream)
    eq(websocket.readinto(bytearray(4), 4), None)
    eq(websocket.write(LONG, 0, 10), None)  # a pong is half written
    while not websocket.write(LONG, 0, 10):
        pass
    eq(said(stream), [(PONG, b""), (BINARY, LONG[:10])])


def test_keys_are_fresh():
    """Another key for each frame, of all kinds."""
    stream = Stream(frame(b"", PING) * 60)
    websocket = WebSocket(stream)
    for k in range(60):
        websocket.write(LONG, 0, 10)
        websocket.readinto(bytearray(4), 4)
    websocket.close()
    keys = {key for _, key, _ in frames(stream.written)}
    assert len(frames(stream.written)) == 121
    assert len(keys) > 119, len(keys)  # two of 121 are the same once in half a million runs


def test_ping():
    """Answered with its payload, also between the parts of a message and in the midst of bytes that were asked for."""
    for n in (0, 1, 125):
        data = frame(b"ab", BINARY, False) + frame(LONG[:n], PING) + frame(b"cd", 0)
        for chunk in (1, 1 << 20):
            stream = Stream(data, chunk)
            eq(read(stream), b"abcd")
            eq(said(stream), [(PONG, LONG[:n])])


def test_pings_while_a_frame_is_half_written():
    """Its bytes stay together; the pong follows, that of the last ping."""
    stream = Stream(frame(b"one", PING) + frame(b"second", PING) + frame(b"x", PONG) + frame(b"data"), takes=5)
    websocket = WebSocket(stream)
    view = bytearray(8)
    eq(websocket.write(b"message", 0, 7), None)
    eq(websocket.readinto(view, 8), 4)
    eq(view[:4], b"data")
    eq(websocket.write(b"message", 0, 7), None)
    eq(websocket.write(b"message", 0, 7), 7)
    for _ in range(10):
        eq(websocket.readinto(view, 8), None)
    eq(said(stream), [(BINARY, b"message"), (PONG, b"second")])


def test_a_ping_cut_in_two_by_a_pong_that_is_due():
    """The pong that was due never carries a mixture of two pings."""
    stream = Stream(frame(b"first", PING) + frame(b"second", PING)[:5], takes=5)
    websocket = WebSocket(stream)
    view = bytearray(8)
    websocket.write(b"message", 0, 7)
    eq(websocket.readinto(view, 8), None)
    for _ in range(2):
        websocket.write(b"message", 0, 7)
    stream.takes = 1 << 20
    eq(websocket.readinto(view, 8), None)
    stream.data += frame(b"second", PING)[5:]
    eq(websocket.readinto(view, 8), None)
    eq(said(stream), [(BINARY, b"message"), (PONG, b"second")])


def test_frames_without_end():
    """One call reads so many bytes of empty frames, or of control frames, then the caller goes on."""

    class Endless(Stream):
        reads = 0

        def readinto(self, view, n):
            self.reads += 1
            assert self.reads < 1000, "it reads for ever"
            if not self.data:
                self.data = self.flood
            return Stream.readinto(self, view, n)

    for first, flood in (
        (b"", frame(b"")),
        (frame(b"", BINARY, False), frame(b"", 0, False)),
        (b"", frame(b"", PING)),
        (b"", frame(b"x" * 125, PING)),
        (b"", frame(b"", PONG)),
        (b"", frame(b"x" * 125, PONG)),
    ):
        stream = Endless(first)
        stream.flood = flood
        websocket = WebSocket(stream)
        view = bytearray(8)
        for _ in range(3):
            stream.reads = 0
            eq(websocket.readinto(view, 8), None)
        stream.flood = frame(b"message", 0 if first else BINARY)
        while websocket.readinto(view, 8) != 7:
            pass
        eq(bytes(view[:7]), b"message")


def test_the_server_closes():
    """Its close is answered once, and ends the connection; what came before it is read."""
    for payload, code in ((b"", 1005), (b"\x03\xf0", 1008), (b"\x03\xe8bye", 1000)):
        stream = Stream(frame(b"data") + frame(payload, CLOSE) + frame(b"more"))
        websocket = WebSocket(stream)
        view = bytearray(8)
        eq(websocket.readinto(view, 8), 4)
        error = raises(OSError, websocket.readinto, view, 8)
        assert str(code) in str(error), error
        websocket.close()
        eq(said(stream), [(CLOSE, b"\x03\xe8")])
        assert stream.closed


def test_the_client_closes():
    """With a close frame, unless another frame is half written; the socket is closed in any case, also one that is
    gone."""
    stream = Stream()
    WebSocket(stream).close()
    eq(said(stream), [(CLOSE, b"\x03\xe8")])
    assert stream.closed
    stream = Stream(takes=3)
    websocket = WebSocket(stream)
    websocket.write(LONG, 0, 10)
    websocket.close()
    eq(len(stream.written), 3)
    assert stream.closed
    stream = Stream()
    stream.write = None
    WebSocket(stream).close()
    assert stream.closed


def test_the_end_of_the_connection():
    """0 wherever it ends, as of a socket."""

    class Ending(Stream):
        def readinto(self, view, n):
            return Stream.readinto(self, view, n) if self.data else 0

    whole = frame(LONG[:200])
    for n in (0, 1, 3, 50):
        stream = Ending(whole[:n])
        websocket = WebSocket(stream)
        view = bytearray(300)
        got = websocket.readinto(view, 300)
        if got:
            got = websocket.readinto(view, 300)
        eq(got, 0)


def test_what_a_server_must_not_send():
    """[MQTT-6.0.0-1] [MQTT5-6.0.0-1] Closed with the code of the reason, and a ProtocolError."""
    masked = bytes([0x82, 0x81, 1, 2, 3, 4, 5])
    of_the_protocol = [masked, b"\xc2\x00", b"\xa2\x00", b"\x92\x00", b"\x83\x00", b"\x8b\x00"]
    of_the_protocol += [frame(b"", PING, False), b"\x89\x7e\x00\x7e", b"\x89\x7f", frame(b"", 0)]
    for data, code in [(data, 1002) for data in of_the_protocol] + [
        (frame(b"text", TEXT), 1003),
        (frame(b"", BINARY, False) + frame(b"", BINARY), 1002),
        (frame(b"x", CLOSE), 1002),
        (b"\x82\x7e\x00\x7d", 1002),
        (b"\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff", 1002),
        (b"\x82\x7f\x00\x00\x00\x00\x10\x00\x00\x00", 1009),
        (b"\x82\x7f\x00\x00\x00\x01\x00\x00\x00\x00", 1009),
        (b"\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x01", 1009),
    ]:
        for chunk in (1, 1 << 20):
            stream = Stream(frame(b"ok") + data, chunk)
            got = []
            websocket = WebSocket(stream)
            view = bytearray(8)

            def pump(websocket=websocket, view=view, got=got):
                for _ in range(100):
                    got.append(websocket.readinto(view, 8))

            raises(ProtocolError, pump)
            eq(sum([n or 0 for n in got]), 2)
            websocket.close()
            eq(said(stream), [(CLOSE, bytes([code >> 8, code & 255]))])


class Connecting:
    """A client whose connection stands, as far as the handshake uses it; the server answers with these lines."""

    _tls = None
    _http_request = b"GET / HTTP/1.1\r\nSec-WebSocket-Key: "

    def __init__(self, lines):
        self.session = self._transport = self
        self.stream = Stream()
        self.lines = lines
        self.answer = b""

    def restart_timers(self, now):
        pass

    def send(self, n):
        key = self.rest.split(b": ")[1].strip()
        accept = b2a_base64(sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())[:-1]
        self.answer = b"\r\n".join(self.lines).replace(b"ACCEPT", accept) + b"\r\n\r\n"

    def receive(self, view, n):
        view[:n] = self.answer[:n]
        self.answer = self.answer[n:]
        return n


def take(lines):
    """The handshake. Returns True if what is behind it are frames."""
    client = Connecting(lines)
    for _ in upgrade_steps(client):
        pass
    return isinstance(client.stream, WebSocket) and not client.answer


ACCEPT, PROTOCOL = b"Sec-WebSocket-Accept: ACCEPT", b"Sec-WebSocket-Protocol:mqtt"
UPGRADE, CONNECTION = b"upgrade: WebSocket", b"Connection: keep-alive, Upgrade"
SWITCHING = b"HTTP/1.1 101 Switching Protocols"


def test_answers_of_a_server():
    """[MQTT-6.0.0-4] [MQTT5-6.0.0-4] What is wrong with them is told."""
    if not sha1:
        raise SkipTest("this port has no SHA-1")
    good = [SWITCHING, UPGRADE, CONNECTION, ACCEPT, PROTOCOL]
    eq(take(good), True)
    eq(take(good[:2] + [b"Set-Cookie: " + bytes(3000)] + good[2:]), True)
    for lines, number, text in (
        ([b"HTTP/1.1 404 Not Found"], ECONNREFUSED, "404 Not Found"),
        ([b"HTTP/1.1 401 Unauthorized"], EACCES, "401"),
        ([b"HTTP/1.1 403 Forbidden"], EACCES, "403"),
        ([b"\x20\x02\0\0"], ECONNREFUSED, "the server answered"),
        ([SWITCHING, CONNECTION, ACCEPT, PROTOCOL], ECONNABORTED, "no WebSocket"),
        ([SWITCHING, UPGRADE, ACCEPT, PROTOCOL], ECONNABORTED, "no WebSocket"),
        ([SWITCHING, UPGRADE, CONNECTION, PROTOCOL], ECONNABORTED, "Accept"),
        ([SWITCHING, UPGRADE, CONNECTION, b"Sec-WebSocket-Accept: x", PROTOCOL], ECONNABORTED, "Accept"),
        ([SWITCHING, UPGRADE, CONNECTION, ACCEPT], ECONNABORTED, "Protocol mqtt"),
        ([SWITCHING, UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Protocol: soap"], ECONNABORTED, "Protocol mqtt"),
        (good + [b"Sec-WebSocket-Extensions: permessage-deflate"], ECONNABORTED, "extension"),
        (good + [b"X: " + bytes(9000)], ECONNABORTED, "too long"),
    ):
        error = raises(OSError, take, lines)
        eq((lines, error.args[0]), (lines, number))
        assert text in error.args[1], error


def test_heap():
    """A frame that arrives allocates nothing, one that leaves the keys of sixteen at a time."""
    import io

    class Socket:
        def __init__(self, data):
            self.file = io.BytesIO(data)

        def readinto(self, view, n):
            return self.file.readinto(view, n)

        def write(self, buf, at, n):
            return n

    websocket = WebSocket(Socket(frame(LONG[:100]) * 100))
    view = bytearray(128)

    def exchange(writing):
        for _ in range(32):
            if writing:
                websocket.write(LONG, 0, 100)
            else:
                websocket.readinto(view, 100)

    eq(allocated(exchange, False), 0)
    assert allocated(exchange, True) <= 2 * allocated(os.urandom, 64)
