# The wire format of MQTT 3.1.1 (level 4) and 3.1 (level 3): encode into, and decode from,
# a buffer of the caller. No sockets, no time, no session state; nothing here allocates on
# the way of a PUBLISH or an acknowledgement.

from .compat import const, copy

CONNECT = const(1)
CONNACK = const(2)
PUBLISH = const(3)
PUBACK = const(4)
PUBREC = const(5)
PUBREL = const(6)
PUBCOMP = const(7)
SUBSCRIBE = const(8)
SUBACK = const(9)
UNSUBSCRIBE = const(10)
UNSUBACK = const(11)
PINGREQ = const(12)
PINGRESP = const(13)
DISCONNECT = const(14)

_MAX_REMAINING = const(268435455)
LONGEST = const(268435460)  # bytes of a packet, with its fixed header
_SPARE = const(32)

_NEVER = const(-0x10000000)


class ProtocolError(Exception):
    """The peer broke the protocol: the connection is closed [MQTT-4.8.0-1]."""


def valid(buf, i, end, name, strict=True):
    """True if buf[i:end] is UTF-8 that MQTT allows: no surrogates and no U+0000 [MQTT-1.5.3-1,
    1.5.3-2]; with `name`, no wildcards either [MQTT-3.3.2-2]. `strict`: nor what a sender should
    avoid and a receiver may refuse, control and non-characters."""
    while i < end:
        c = buf[i]
        i += 1
        if c < 0x80:
            if not c or (strict and (c < 0x20 or c == 0x7F)) or (name and (c == 0x23 or c == 0x2B)):
                return False
            continue
        more = 1 if c < 0xE0 else 2 if c < 0xF0 else 3
        if c < 0xC2 or c > 0xF4 or i + more > end:
            return False
        c &= 0x3F >> more
        for _ in range(more):
            d = buf[i]
            i += 1
            if d & 0xC0 != 0x80:
                return False
            c = c << 6 | d & 0x3F
        # Shortest form only, no surrogates; no C1 controls, no non-characters.
        if c < (0x80 if more == 1 else 0x800 if more == 2 else 0x10000) or c > 0x10FFFF or 0xD800 <= c < 0xE000:
            return False
        if strict and (c < 0xA0 or 0xFDD0 <= c < 0xFDF0 or c & 0xFFFE == 0xFFFE):
            return False
    return True


def begin(buf, first, remaining, i=0):
    # Writes the fixed header to buf[i:]; a packet is only begun when it is known to fit.
    if remaining > _MAX_REMAINING:
        raise ValueError("packet too long")
    buf[i] = first
    i += 1
    while remaining > 127:
        buf[i] = remaining & 0x7F | 0x80
        remaining >>= 7
        i += 1
    buf[i] = remaining
    return i + 1


def check_size(buf, remaining):
    # 5 bytes are the longest fixed header.
    if remaining + 5 > len(buf):
        raise ValueError("buffer too small: %d bytes needed" % (remaining + 5))


def put_string(buf, i, data):
    buf[i] = len(data) >> 8
    buf[i + 1] = len(data) & 0xFF
    return copy(buf, i + 2, data)


def publish(buf, topic, size, qos, retain, mid, block=b""):
    """Writes a PUBLISH up to its payload of `size` bytes: topic is bytes, mid is not written at
    QoS 0; block: the properties of level 5. Returns where the payload goes. Raises ValueError if the head does not
    fit."""
    head = len(topic) + (4 if qos else 2) + len(block)
    check_size(buf, head)
    i = put_string(buf, begin(buf, 0x30 | qos << 1 | (1 if retain else 0), head + size), topic)
    if qos:
        buf[i] = mid >> 8
        buf[i + 1] = mid & 0xFF
        i += 2
    return copy(buf, i, block)


def length(buf, i):
    """Returns the length of the packet that begins at buf[i]."""
    n = shift = 0
    k = i
    c = 0x80
    while c & 0x80 and shift < 28:  # more is no length: that of a record which is no packet
        k += 1
        c = buf[k]
        n |= (c & 0x7F) << shift
        shift += 7
    return n + k + 1 - i


def ack(buf, kind, mid, dup=0, i=0):
    """Writes PUBACK, PUBREC, PUBREL or PUBCOMP to buf[i:]; `dup` (8) marks a PUBREL re-sent at
    level 3. Returns the index behind it."""
    buf[i] = kind << 4 | (2 | dup if kind == PUBREL else 0)
    buf[i + 1] = 2
    buf[i + 2] = mid >> 8
    buf[i + 3] = mid & 0xFF
    return i + 4


def bare(buf, kind):
    """Writes PINGREQ or DISCONNECT. Returns 2."""
    buf[0] = kind << 4
    buf[1] = 0
    return 2


def compact(buf, start, end):
    """Moves buf[start:end] to the front of buf, byte by byte: no memory is allocated. Returns its new end."""
    k = 0
    for i in range(start, end):
        buf[k] = buf[i]
        k += 1
    return k


class Decoder:
    """Finds the packets in a byte stream, incrementally, without copying them.

    Read at most `space` bytes into `view`, say so with fed(n), then call next() until it
    returns 0. A PUBLISH longer than the buffer comes in pieces: `offset` counts what came
    before this piece, `left` what is still to come. What the fields point at stays valid until
    the next call of bytes_received().
    """

    # Remaining length of what a server may send, by type; below 0: it is variable, at least -1 - n; _NEVER: no server
    # may.
    _sizes = (_NEVER, _NEVER, -3, -1, 2, 2, 2, 2, _NEVER, -4, _NEVER, 2, _NEVER, 0, _NEVER, _NEVER)
    # Of receiving, which Session.load_receiving() loads with the first PUBLISH.
    _piece: "Any"  # type: ignore[name-defined] # noqa: F821
    _publish: "Any"  # type: ignore[name-defined] # noqa: F821
    load_receiving: "Any"  # type: ignore[name-defined] # noqa: F821

    def __init__(self, buf, protocol_level=4):
        self.buf = memoryview(buf)
        self.protocol_level = protocol_level
        # A packet cut in two by the end of a read is completed through this: a view at an
        # offset would be a new object each time.
        self.spare = bytearray(_SPARE)  # free between bytes_received() and the next read: for acknowledgements
        self.reset()

    def reset(self):
        """Forgets everything read: a new connection begins."""
        self.start = self.end = 0
        self._tail = None  # where pieces of a long payload go: behind its topic
        self.view = self.buf
        self.space = len(self.buf)
        self.flags = self.mid = 0
        self.topic = self.topic_len = 0  # index and length; length 0: the topic was too long to keep, `topic` bytes
        self.at = self.n = 0  # index and length of the body, or of this piece of the payload
        self.size = self.left = 0
        self._skip = -1  # bytes of an unkeepable topic still to come, -1: none

    @property
    def offset(self):
        """How much of the payload came before this piece."""
        return self.size - self.left - self.n

    def bytes_received(self, n):
        """n bytes were read into `view`."""
        if self.view is self.spare:
            if self.space == _SPARE:
                copy(self.buf, self.end, self.spare)  # all of it: what is behind n bytes is read later
            else:
                for i in range(n):
                    self.buf[self.end + i] = self.spare[i]
        self.end += n

    def _aim(self):
        # Says where the next bytes go.
        if self.start == self.end:
            self.view = self._tail or self.buf
            self.space = len(self.view)
            self.start = self.end = len(self.buf) - self.space
            return
        if self.start and self.end + _SPARE > len(self.buf):
            self._compact()
        self.view = self.spare
        self.space = min(_SPARE, len(self.buf) - self.end)

    def _compact(self):
        self.end = compact(self.buf, self.start, self.end)
        self.start = 0

    def next(self):
        """Returns the type of the next packet or piece of one, 0 if more bytes are needed.
        Raises ProtocolError; the connection is of no use then. [MQTT-4.8.0-1]"""
        kind = self._piece() if self.left or self._skip >= 0 else self._packet()
        if not kind:
            self._aim()
        return kind

    def _packet(self):
        buf = self.buf
        i = self.start
        if i == self.end:
            return 0
        first = buf[i]
        n = shift = 0
        c = 0x80
        while c & 0x80:
            if shift > 21:
                raise ProtocolError("remaining length")
            i += 1
            if i == self.end:
                return 0
            c = buf[i]
            n |= (c & 0x7F) << shift
            shift += 7
        if not c and shift > 7 and self.protocol_level > 4:
            raise ProtocolError("remaining length")  # it is not the shortest [MQTT5-1.5.5-1]
        i += 1
        kind = first >> 4
        self.flags = first & 15
        if kind == PUBLISH:
            return self._publish(i, n)
        size = self._sizes[kind]
        if n != size and (size >= 0 or n < -1 - size or i - self.start + n > len(buf)):
            return self._refuse_length(kind, n)
        # At level 3 the bits are "not used", and a re-sent PUBREL has DUP.
        if self.protocol_level > 3 and self.flags != (2 if kind == PUBREL else 0):
            raise ProtocolError("flags %d of type %d" % (self.flags, kind))
        if i + n > self.end:
            return 0
        self.start = i + n
        if CONNACK < kind < PINGREQ:
            self.mid = self._id(i)
            i += 2
        self.at = i
        self.n = self.start - i
        return kind

    def _refuse_length(self, kind, n):
        raise ProtocolError("type %d of length %d" % (kind, n))

    def _id(self, i):
        mid = self.buf[i] << 8 | self.buf[i + 1]
        if not mid:
            raise ProtocolError("Message ID 0")
        return mid
