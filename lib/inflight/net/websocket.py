# WebSocket (RFC 6455) between the client and its socket: frames around the bytes of MQTT, which need not know of each
# other's bounds [MQTT-6.0.0-2]. It reads and writes as the socket below does.
#
#   frame that arrives             what happens                             RFC 6455
#   binary, its continuation       read, straight into the reader's buffer  5.4, 5.6
#   text                           close 1003 [MQTT-6.0.0-1]                5.6
#   ping                           pong, as soon as no other frame is half written;
#                                  of several the last one                  5.5.2, 5.5.3
#   pong                           ignored                                  5.5.3
#   close                          close, then the connection is lost       5.5.1
#   masked, reserved bits or types,
#   not the shortest length, parts out of place,
#   a control frame that is long or in parts     close 1002                 5.1, 5.2, 5.4, 5.5
#   2**28 bytes or more            close 1009                               7.4.1
#
# A frame that goes out is built in a buffer of its own: header, a key that nobody can foresee, and the payload masked
# with it [5.3]. What is masked is the copy; the caller's bytes are left alone. A packet of up to _SPACE bytes is one
# frame in one write.

from binascii import b2a_base64
from errno import EACCES, ECONNABORTED, ECONNREFUSED, ECONNRESET
from os import urandom

from ..compat import const, ticks_ms
from ..errors import printable
from ..packet import ProtocolError
from ..states import POLL

_SPACE = const(256)  # payload of a frame
_HEAD = const(8)  # its header: 2 bytes, 2 for a length above 125, 4 for the key
_CONTROL = const(125)  # the longest payload of a control frame
_KEYS = const(64)  # bytes of keys that are drawn at a time
_MOST = const(256)  # bytes of headers and control frames that one call reads, so 128 frames at most
_TEXT = const(1)
_BINARY = const(2)
_CLOSE = const(8)
_PING = const(9)
_PONG = const(10)
_FIN = const(0x80)


class WebSocket:
    """The frames on `stream`, a connected socket after its handshake. Errors: OSError; ProtocolError if the
    server breaks the rules."""

    def __init__(self, stream):
        self._stream = stream
        self._frame = bytearray(_HEAD + _SPACE)  # the one that goes out
        self._at = self._left = 0  # which bytes of it are still to be written
        self._taken = 0  # how many bytes of the writer's it carries; 0: a control frame
        self._keys = b""
        self._key = 0  # index of the next one
        self._header = bytearray(10)  # of the frame that arrives,
        self._n = 0  # so many bytes of it
        self._byte = bytearray(1)
        self._open = False  # the last data frame was not the end of its message
        self._data = 0  # bytes of the data frame that are still to come
        self._control = None  # payload of the last control frame: _got bytes of it, _due are still to come
        self._got = self._due = 0
        self._pong = -1  # length of the pong that is due, -1: none
        self._closed = False  # no frame may follow

    # --- going out ---

    def write(self, buf, at, n):
        """Takes bytes of buf[at:at+n]. Returns how many, when they are all written; None: none yet, call it again with
        the same ones."""
        if not self._left or not self._taken:
            if not self._write_left():
                return None
            self._taken = min(n, _SPACE)
            self._build(_BINARY, buf, at, self._taken)
        if not self._write_left():
            return None
        n = self._taken
        self._taken = 0
        return n

    def _write_left(self):
        # Returns True if no frame is half written any more.
        if self._left:
            done = self._stream.write(self._frame, self._at, self._left) or 0
            self._at += done
            self._left -= done
        return not self._left

    def _build(self, kind, buf, at, n):
        # Puts a frame with the payload buf[at:at+n] there.
        frame = self._frame
        k = self._key
        if k == len(self._keys):
            self._keys = urandom(_KEYS)
            k = 0
        keys = self._keys
        k0 = keys[k]
        k1 = keys[k + 1]
        k2 = keys[k + 2]
        k3 = keys[k + 3]
        self._key = k + 4
        start = 2 if n <= _CONTROL else 0  # the payload is always at _HEAD
        frame[start] = _FIN | kind
        frame[start + 1] = 0x80 | (n if start else 126)
        if not start:
            frame[2] = n >> 8
            frame[3] = n & 0xFF
        frame[4] = k0
        frame[5] = k1
        frame[6] = k2
        frame[7] = k3
        i = _HEAD
        end = at + n
        last = end - 3
        while at < last:
            frame[i] = buf[at] ^ k0
            frame[i + 1] = buf[at + 1] ^ k1
            frame[i + 2] = buf[at + 2] ^ k2
            frame[i + 3] = buf[at + 3] ^ k3
            i += 4
            at += 4
        while at < end:
            frame[i] = buf[at] ^ keys[k]
            k += 1
            i += 1
            at += 1
        self._at = start
        self._left = i - start

    def _answer(self):
        # The pong that is due goes out, as far as the socket takes it now, unless a data frame is half written.
        if self._taken or not self._write_left() or self._pong < 0:
            return
        n = self._pong
        self._pong = -1
        self._build(_PONG, self._control, 0, n)
        self._write_left()

    def _send_close(self, code):
        # As far as the socket takes it now: nobody waits for it.
        if not (self._closed or self._left or self._taken):
            self._closed = True
            self._build(_CLOSE, bytes((code >> 8, code & 0xFF)), 0, 2)
            self._write_left()

    def close(self):
        """Says so to the server if it can, and closes the socket."""
        try:
            self._send_close(1000)
        except Exception:
            pass  # it is gone already
        finally:
            self._stream.close()

    # --- coming in ---

    def readinto(self, view, n):
        """Reads at most n bytes into view. Returns how many; None: none is there, or the server has sent so many frames
        without any that the caller's timers have their turn; 0: the connection has ended."""
        self._answer()
        for _ in range(_MOST):  # a server may send empty frames and pings without end
            if self._data:
                got = self._stream.readinto(view, min(n, self._data))
                if got:
                    self._data -= got
                return got
            got = self._stream.readinto(self._byte, 1)
            if not got:
                return got
            if self._due:
                self._take_control(self._byte[0])
            else:
                self._take_header(self._byte[0])
        return None

    def _take_header(self, c):
        # The next byte of a frame's header.
        h = self._header
        h[self._n] = c
        self._n += 1
        if self._n == 2:
            self._check(h[0], h[1])
        size = h[1]
        if self._n < 2 or self._n < (4 if size == 126 else 10 if size == 127 else 2):
            return
        self._n = 0
        if size == 126:
            size = h[2] << 8 | h[3]
        elif size == 127:
            if h[2] or h[3] or h[4] or h[5] or h[6] > 15:
                self._fail(1009, "length")
            size = h[6] << 24 | h[7] << 16 | h[8] << 8 | h[9]
        if size < (0 if h[1] < 126 else 126 if h[1] == 126 else 65536):
            self._fail(1002, "length")
        kind = h[0] & 15
        if kind >= _CLOSE:
            self._begin_control(kind, size)
        else:
            self._data = size
            self._open = not h[0] & _FIN

    def _check(self, first, second):
        # The first two bytes of a header.
        kind = first & 15
        if kind == _TEXT:
            self._fail(1003, "text")
        control = kind >= _CLOSE
        if (
            first & 0x70
            or second & 0x80  # masked
            or kind not in (0, _BINARY, _CLOSE, _PING, _PONG)
            or (control and (second > _CONTROL or not first & _FIN))
            or (not control and self._open == (kind == _BINARY))
        ):
            self._fail(1002, "header %02x %02x" % (first, second))

    def _begin_control(self, kind, size):
        if not self._control:
            self._control = bytearray(_CONTROL)
        if kind != _PONG:
            self._pong = -1  # its payload goes now
        self._got = 0
        self._due = size
        if not size:
            self._end_control()

    def _take_control(self, c):
        # The next byte of a control frame's payload.
        if self._header[0] & 15 != _PONG:
            self._control[self._got] = c
        self._got += 1
        self._due -= 1
        if not self._due:
            self._end_control()

    def _end_control(self):
        kind = self._header[0] & 15
        if kind == _PING:
            self._pong = self._got
            self._answer()
        elif kind == _CLOSE:
            if self._got == 1:
                self._fail(1002, "close")
            self._send_close(1000)
            code = self._control[0] << 8 | self._control[1] if self._got else 1005
            raise OSError(ECONNRESET, "the broker closed the WebSocket: %d" % code)

    def _fail(self, code, what):
        self._send_close(code)
        raise ProtocolError("WebSocket: " + what)


# --- the handshake: one GET, and the server's answer (RFC 6455, 4) ---

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LINE = const(256)  # longer lines of the answer are cut,
_LONGEST_ANSWER = const(8192)  # a longer answer is refused


def upgrade_request(host, port, tls, path, headers):
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


def upgrade_steps(client):
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
        if self._size > _LONGEST_ANSWER:
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
