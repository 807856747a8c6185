# Packets longer than the receive buffer, at level 5; and messages of QoS 2 that are many.
#
# A PUBLISH comes in pieces; its topic and its properties stand whole in front of them. If those take the whole buffer,
# and for any other packet that is longer, the properties that nobody needs are left out while they come. What remains
# is a shorter packet, in the same place:
#
#   fixed header ... length of the properties | properties that are kept | what has come behind them
#                                             at                         kept                       d.end
#
# Left out are user properties, and texts of the broker, unless they are short and tell why it refuses. Of them only the
# lengths are looked at. What is kept is checked as in any other packet.

from ..packet import CONNACK, MALFORMED, PUBLISH, PUBREL, SUBACK, UNSUBACK, ProtocolError, begin, valid
from ..session.session import Session
from ..states import TOO_LONG
from .cursor import (
    ALIAS,
    BINARY,
    FOUR,
    IN_PUBLISH,
    REASON,
    RESPONSE_INFORMATION,
    SERVER_REFERENCE,
    TABLE,
    USER,
    UTF_8,
    VAR,
    refuse_alias,
)

_TEXTS = bytes((REASON, RESPONSE_INFORMATION, SERVER_REFERENCE))
_FAILURE = 0x80
_BEHIND_TOPIC = 5  # bytes that have to fit behind a topic: the length of properties, and one of the payload


_TOO_MANY = 0x93


class _Shorter:
    """How far a packet was made shorter. kept: where the properties that are kept end; left: bytes of properties that
    were not gone through; drop: bytes of the next ones that are left out, and texts behind them; rest: bytes of the
    packet behind the properties."""

    drop = texts = 0

    def __init__(self, kept, left, rest):
        self.kept, self.left, self.rest = kept, left, rest
        if rest < 0:
            raise _malformed()


class LongPackets(Session):
    """A session at level 5, as far as its packets are longer than the buffer."""

    shorter = None  # a _Shorter, while one comes
    # Of Session5.
    maximum_in: int
    places: bytes
    _block_due: bool
    _check_block: "Any"  # type: ignore[name-defined] # noqa: F821

    def publish_long(self, i, n):
        """A PUBLISH of n bytes begins at self.buf[i], and there will be more. Returns what next_packet() does. If there
        is no space for its topic, that is skipped."""
        if i - self.start + n > self.maximum_in:
            raise ProtocolError("PUBLISH of %d bytes, %d are allowed" % (i - self.start + n, self.maximum_in), TOO_LONG)
        if self.flags & 6 == 6 or self.flags & 14 == 8:
            raise ProtocolError("invalid flags in PUBLISH", MALFORMED)  # [MQTT5-3.3.1-2] [MQTT5-3.3.1-4]
        if i + 2 > self.end:
            return 0
        length = self.buf[i] << 8 | self.buf[i + 1]
        body = i + 2 + length + (2 if self.flags & 6 else 0)
        if body - i >= n:
            raise ProtocolError("invalid length of PUBLISH", MALFORMED)  # it has no properties, not even none
        if body - self.start + _BEHIND_TOPIC > len(self.buf):
            self._skip = length
            return self._undeliverable(i + 2, length, n - (body - i))
        if self.start:
            self._compact()
            return self._packet()
        behind = self._head_end(body)
        if behind - i > n:
            raise ProtocolError("invalid length of PUBLISH", MALFORMED)
        if behind >= len(self.buf):
            return self._shorten(i, n, body)
        if behind < 0 or behind >= self.end:
            return 0
        self._block_due = True
        return self.decode_publish(i, n)

    def _head_end(self, i):
        # Where the properties end whose length stands at buf[i]; -1: not known yet.
        n = shift = 0
        c = 0x80
        while c & 0x80 and shift < 28:
            if i >= self.end:
                return -1
            c = self.buf[i]
            i += 1
            n |= (c & 0x7F) << shift
            shift += 7
        return i + n

    def _undeliverable(self, start, length, size):
        # A PUBLISH whose topic and properties, of that length, do not fit the buffer. It comes as `size` bytes from
        # buf[start] on, behind what is to be skipped.
        self.start = start
        self.n = self.topic_len = 0
        self.topic = length
        self.size = size
        if self._skip < 0:
            self.left = size
        return self._piece()

    def properties_arrived(self):
        """What decode_publish() takes for the beginning of the payload are the properties."""
        self._block_due = False
        at = self.start
        self.start = self._check_block(at, self.end, IN_PUBLISH)
        self.size -= self.start - at
        self.left = self.size
        self._tail = self.buf[self.start :]

    def packet_too_long(self, kind, n):
        """A packet of this type has n bytes behind its fixed header. If it is longer than the buffer, returns what
        next_packet() does. Raises ProtocolError for all else."""
        i = self.start + 1
        while self.buf[i] & 0x80:
            i += 1
        i += 1
        size = i - self.start + n
        if self.flags != (2 if kind == PUBREL else 0) or not -8 < self._sizes[kind] < 0 or size <= len(self.buf):
            raise self.fault(kind, 0, n)
        if size > self.maximum_in:
            raise self.fault(kind, 0, n, "%d bytes, of which %d are allowed," % (size, self.maximum_in), TOO_LONG)
        if self.start:
            i -= self.start
            self._compact()
        p = i + (2 if kind in (CONNACK, SUBACK, UNSUBACK) else 3 if kind < SUBACK else 1)
        return self._shorten(i, n, p) if self._head_end(p) >= 0 else 0

    def _shorten(self, i, n, p):
        # The packet of n bytes from buf[i] on, the length of its properties is at buf[p]. Returns what next_packet()
        # does.
        buf = self.buf
        at = p + 1
        while buf[at - 1] & 0x80 and at - p < 5:
            at += 1
        s = self.shorter
        if not s:
            if at - p > 4 or (at - p > 1 and not buf[at - 1]):
                raise _malformed()
            behind = self._head_end(p)
            s = self.shorter = _Shorter(at, behind - at, n - (behind - i))
        kind = buf[0] >> 4
        refused = buf[p - 1] >= _FAILURE and kind not in (PUBLISH, SUBACK, UNSUBACK)
        self._leave_out(s, self.places[kind] or IN_PUBLISH, refused)
        full = len(buf) if s.left else s.kept + (1 if kind == PUBLISH else s.rest)
        if s.left and self.end < full:
            return 0
        self.shorter = None
        if full > len(buf) or s.left:
            if kind != PUBLISH:
                raise self.fault(kind, 0, n, "properties longer than the buffer", TOO_LONG)
            if self.flags & 6:
                self.mid = self._id(p - 2)
            if not valid(buf, i + 2, i + 2 + (buf[i] << 8 | buf[i + 1]), True, False):
                raise ProtocolError("invalid topic", MALFORMED)
            return self._undeliverable(s.kept, n - s.rest, s.left + s.rest)
        behind = begin(buf, buf[p - 1], s.kept - at, p - 1)
        self._move_up(at, behind)
        self._move_up(i, begin(buf, buf[0], behind - i + s.kept - at + s.rest, 0))
        return self._packet()

    def _leave_out(self, s, where, refused):
        # Goes through the properties that have come.
        buf = self.buf
        i = s.kept
        while s.left:
            have = self.end - i
            if s.drop:
                n = min(s.drop, have)
                s.drop -= n
            elif s.texts and have > 1:
                n = 2
                s.texts -= 1
                s.drop = buf[i] << 8 | buf[i + 1]
                if s.drop > s.left - 2:
                    raise _malformed()
            elif s.texts or not have:
                break
            else:
                kind = buf[i]
                if kind >= len(TABLE) or not TABLE[kind] & where:
                    raise ProtocolError("unexpected property %02x" % kind)
                if kind == ALIAS:
                    refuse_alias()  # also in front of a message that does not fit
                n = _size(buf, i, self.end)
                if kind == USER or (n and kind in _TEXTS and not _is_kept(kind, n, len(buf), refused)):
                    n = 1
                    s.texts = 2 if kind == USER else 1
                elif n > s.left:
                    raise _malformed()
                elif not n or n > have:
                    break
                else:
                    for k in range(i, i + n):
                        buf[s.kept] = buf[k]
                        s.kept += 1
            if not n:
                break
            s.left -= n
            i += n
        if s.texts and not s.left:
            raise _malformed()
        self._move_up(i, s.kept)

    def _move_up(self, start, to):
        # What begins at buf[start] moves to buf[to:], which is in front of it.
        if to < start:
            for k in range(start, self.end):
                self.buf[to] = self.buf[k]
                to += 1
            self.end = to

    # --- as many messages of QoS 2 in flight as receive_maximum allows ---

    def check_receive_maximum(self):
        """A PUBLISH of QoS 2 arrived, and all that the broker may have in flight are. Raises ProtocolError unless it is
        one of them. [MQTT5-3.3.4-9]"""
        if self.row(self.mid, self.limit) < 0:
            raise ProtocolError("more messages in flight than receive_maximum", _TOO_MANY)


def _malformed():
    return ProtocolError("invalid length of properties", MALFORMED)


def _is_kept(kind, n, size, refused):
    return n <= size // 4 and (refused or kind == RESPONSE_INFORMATION)


def _size(buf, i, end):
    # Of the property at buf[i]; 0: it is not known yet.
    form = TABLE[buf[i]] & 7
    if form == UTF_8 or form == BINARY:
        return 3 + (buf[i + 1] << 8 | buf[i + 2]) if i + 3 <= end else 0
    if form != VAR:
        return 5 if form == FOUR else 1 + form
    k = i + 1
    while k < end and buf[k] & 0x80:
        k += 1
    return k + 1 - i if k < end else 0
