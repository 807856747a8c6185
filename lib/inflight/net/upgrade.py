# The handshake of a WebSocket connection: one GET, and the server's answer (RFC 6455, 4). Loaded for each.

from binascii import b2a_base64
from errno import EACCES, ECONNABORTED, ECONNREFUSED
from os import urandom

from ..compat import const, ticks_ms
from ..printable import printable
from ..states import POLL
from .websocket import WebSocket

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LINE = const(256)  # longer lines of the answer are cut,
_MOST = const(8192)  # a longer answer is refused


def request(host, port, tls, path, headers):
    """Returns the GET up to the value of its last header, the key. headers: {name: value} to be added. Raises
    ValueError."""
    if ":" in host:
        host = "[%s]" % host
    if port != (443 if tls else 80):
        host = "%s:%d" % (host, port)
    lines = ["GET %s HTTP/1.1" % path, "Host: " + host, "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: mqtt"]  # [MQTT-6.0.0-3]
    for name, value in (headers or {}).items():
        if not (isinstance(name, str) and isinstance(value, str)) or not name or ":" in name or " " in name:
            raise ValueError("headers are {name: value}, both a str, a name without : and spaces")
        lines.append("%s: %s" % (name, value))
    if path[:1] != "/" or " " in path:
        raise ValueError('path begins with "/" and has no spaces')
    for line in lines:
        for c in line:
            if not 32 <= ord(c) < 127:
                raise ValueError("host, path and headers are printable ASCII")
    return ("\r\n".join(lines) + "\r\nSec-WebSocket-Key: ").encode()


def steps(client):
    """The handshake as steps of connecting. Raises OSError if the server does not agree to a WebSocket for MQTT."""
    session = client.session
    transport = client._transport
    stream = transport.stream
    key = b2a_base64(urandom(16))[:-1]
    answer = _Answer(key, client._tls)
    session.restart_timers(ticks_ms())
    session.rest = client._http_request + key + b"\r\n\r\n"
    session.send(0)
    waiting = _Waiting(stream)
    byte = bytearray(1)
    while not answer.complete:
        transport.stream = waiting
        yield POLL
        transport.stream = stream
        while not answer.complete and transport.receive(byte, 1):  # _MOST bytes in all
            answer.take(byte[0])
    transport.stream = WebSocket(stream)


class _Waiting:
    """The stream while the answer is waited for: there is nothing to read for MQTT yet."""

    def __init__(self, stream):
        self.write = stream.write
        self.close = stream.close

    def readinto(self, view, n):
        return None


class _Answer:
    """The server's answer to the GET with this key, byte by byte; what is behind it belongs to the first frame."""

    def __init__(self, key, tls):
        self.complete = False
        self._line = bytearray()
        self._size = 0
        self._status = b""
        self._found = {}
        self._accept = _accept(key, tls)

    def take(self, c):
        """Takes the next byte. Raises OSError."""
        self._size += 1
        if self._size > _MOST:
            _refuse("too long an answer")
        if c != 10:
            if len(self._line) < _LINE:
                self._line.append(c)
            return
        line = bytes(self._line).strip()
        self._line = bytearray()
        if not line:
            self._check()
            self.complete = True
        elif not self._status:
            self._status = line
            self._check_status(line.split(b" ", 2))
        else:
            name, _, value = line.partition(b":")
            self._found[name.strip().lower()] = value.strip()

    def _check_status(self, words):
        code = words[1] if len(words) > 1 else b""
        if words[0] != b"HTTP/1.1" or code != b"101":
            number = EACCES if code in (b"401", b"403") else ECONNREFUSED
            raise OSError(number, "the server answered " + printable(self._status))

    def _check(self):
        found = self._found
        if (
            found.get(b"upgrade", b"").lower() != b"websocket"
            or b"upgrade" not in found.get(b"connection", b"").lower()
        ):
            _refuse("no WebSocket")
        if self._accept and found.get(b"sec-websocket-accept") != self._accept:
            _refuse("a wrong Sec-WebSocket-Accept")
        if found.get(b"sec-websocket-protocol") != b"mqtt":  # [MQTT-6.0.0-4]
            _refuse("no Sec-WebSocket-Protocol mqtt")
        if b"sec-websocket-extensions" in found:
            _refuse("a WebSocket extension, and asked for none")


def _accept(key, tls):
    # What the server has to answer. A port may lack SHA-1: TLS then tells who the server is.
    try:
        from hashlib import sha1
    except ImportError:
        if tls:
            return None
        _refuse("a WebSocket, and this MicroPython lacks hashlib.sha1: use tls")
    return b2a_base64(sha1(key + _GUID).digest())[:-1]


def _refuse(what):
    raise OSError(ECONNABORTED, "the server answered with " + what)
