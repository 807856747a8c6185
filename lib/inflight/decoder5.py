# Level 5 of the decoder: reason codes, and properties, all of which are checked before their packet counts.

from .compat import const
from .cursor import ERROR, IN_PUBLISH, MALFORMED, Cursor, ProtocolError5
from .packet import CONNACK, PUBLISH, PUBREC, SUBACK, UNSUBACK, Decoder, ProtocolError

_NEVER = const(-0x10000000)
_PLACES = b"\x00\x00\x08\x00\x20\x20\x20\x20\x00\x20\x00\x20\x00\x00\x40\x80"  # by type, as cursor has them
_NO_SUBSCRIBERS = const(0x10)
_NOT_FOUND = const(0x92)


class Decoder5(Decoder):
    """A Decoder of level 5. code: the reason code of the last packet; block: where its properties begin, 0: it has
    none."""

    # As in packet. A CONNACK of 2 bytes comes from a broker that does not know level 5.
    _sizes = (_NEVER, _NEVER, -3, -1, -3, -3, -3, -3, _NEVER, -5, _NEVER, -5, _NEVER, 0, -1, -1)

    def __init__(self, buf, protocol_level=5):
        super().__init__(buf, protocol_level)
        self.cursor = Cursor(self.buf)

    def reset(self):
        super().reset()
        self.code = self.block = 0
        self._block_due = False  # the properties of a long message are to be read next

    def next(self):
        try:
            return super().next()
        except ProtocolError5:
            raise
        except ProtocolError as e:
            from .leaving5 import too_long

            kind = too_long(self, e)
            if not kind:
                self._aim()
            return kind

    def _id(self, i):
        try:
            return super()._id(i)
        except ProtocolError as e:
            raise ProtocolError5(str(e), ERROR)

    def _check(self, i, end, where):
        self.block = i
        return self.cursor.check(i, end, where)

    def _packet(self):
        kind = super()._packet()
        if kind and kind != PUBLISH:
            self._read_code(kind)
        return kind

    def _read_code(self, kind):
        i = self.at
        end = self.start
        self.code = self.block = 0
        if kind == SUBACK or kind == UNSUBACK:
            i = self._check(i, end, _PLACES[kind])
            self.at = i
            self.n = end - i
            if self.n:
                return
            i -= 1  # one code at least
        elif i < end:
            if kind == CONNACK:
                i += 1
            self.code = self.buf[i]
            i += 1
            if i < end:
                i = self._check(i, end, _PLACES[kind])
        if i != end:
            raise ProtocolError5("type %d of another length" % kind, MALFORMED)
        if PUBLISH < kind < SUBACK and not self._is_allowed(kind):
            raise ProtocolError5("reason code %02x of type %d" % (self.code, kind), ERROR)

    def _is_allowed(self, kind):
        # [MQTT5-3.4.2-1] [MQTT5-3.5.2-1] [MQTT5-3.6.2-1] [MQTT5-3.7.2-1] PUBACK and PUBREC have more codes for failures
        # than brokers keep to.
        code = self.code
        if kind > PUBREC:
            return code == 0 or code == _NOT_FOUND
        return code == 0 or code == _NO_SUBSCRIBERS or code >= 0x80

    # --- PUBLISH: for the decoder of level 4 the properties are the beginning of the payload ---

    def _publish(self, i, n):
        buf = self.buf
        if i + 2 <= self.end and not (buf[i] or buf[i + 1]):
            raise ProtocolError5("no topic", ERROR)  # [MQTT5-3.3.2-1]
        if i - self.start + n > len(buf):
            return self._publish_long(i, n)
        kind = super()._publish(i, n)
        if kind:
            behind = self._check(self.at, self.start, IN_PUBLISH)
            self.n = self.size = self.start - behind
            self.at = behind
        return kind

    def _publish_long(self, i, n):
        # Its properties stand whole in front of the first piece; if there is no space for them, its topic is skipped.
        behind = self._head_end(i)
        if behind - i > n:
            raise ProtocolError5("PUBLISH length", MALFORMED)
        if behind - self.start > len(self.buf) // 2:
            length = self.buf[i] << 8 | self.buf[i + 1]
            self.n = 0
            self.size = n - 2 - length - (2 if self.flags & 6 else 0)
            self._skip = length
            self.start = i + 2
            self.topic_len = 0
            return self._piece()
        if self.start:
            self._compact()
            return self._packet()
        if behind < 0 or behind >= self.end:
            return 0
        self._block_due = True
        return super()._publish(i, n)

    def _head_end(self, i):
        # Where the payload of the PUBLISH begins, or how far its topic goes, if that is too far; -1: not known yet.
        buf = self.buf
        if i + 2 > self.end:
            return -1
        i += 2 + (buf[i] << 8 | buf[i + 1]) + (2 if self.flags & 6 else 0)
        if i - self.start > len(buf) // 2:
            return i
        n = shift = 0
        c = 0x80
        while c & 0x80 and shift < 28:
            if i >= self.end:
                return -1
            c = buf[i]
            i += 1
            n |= (c & 0x7F) << shift
            shift += 7
        return i + n

    def _piece(self):
        if self._block_due:
            self._block_due = False
            at = self.start
            self.start = self._check(at, self.end, IN_PUBLISH)
            self.size -= self.start - at
            self.left = self.size
            self._tail = self.buf[self.start :]
        return super()._piece()
