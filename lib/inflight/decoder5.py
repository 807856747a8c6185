# Level 5 of the decoder: reason codes, and properties, all of which are checked before their packet counts.

from .compat import const
from .cursor import IN_PUBLISH
from .errors5 import ERROR, MALFORMED, ProtocolError5
from .packet import CONNACK, LONGEST, PUBLISH, PUBREC, SUBACK, UNSUBACK, Decoder, ProtocolError

_NEVER = const(-0x10000000)
_FAILURE = const(0x80)
_NO_SUBSCRIBERS = const(0x10)
_NOT_FOUND = const(0x92)
_SUBSCRIPTION = const(0x0B)  # the property


def digits_for(n):
    # How many bytes the remaining length n takes.
    return 1 if n < 128 else 2 if n < 16384 else 3 if n < 2097152 else 4


def digits_in(size):
    # How many bytes the remaining length takes in a packet of this size.
    return 1 if size < 130 else 2 if size < 16387 else 3 if size < 2097156 else 4


class Decoder5(Decoder):
    """A Decoder of level 5. code: the reason code of the last packet; block: where its properties begin, 0: it has
    none."""

    # As in packet. A CONNACK of 2 bytes comes from a broker that does not know level 5.
    _sizes = (_NEVER, _NEVER, -3, -1, -3, -3, -3, -3, _NEVER, -5, _NEVER, -5, _NEVER, 0, -1, -1)

    places = b"\x00\x00\x08\x00\x20\x20\x20\x20\x00\x20\x00\x20\x00\x00\x40\x80"  # by type, as cursor has them
    maximum = LONGEST  # size of the longest packet that the broker may send

    def __init__(self, buf, protocol_level=5):
        super().__init__(buf, protocol_level)
        self.cursor = None  # a Cursor, once there are properties

    def reset(self):
        super().reset()
        self.code = self.block = 0
        self._block_due = False  # the properties of a long message are to be read next
        self.shorter = None  # what long5 has done to a packet longer than the buffer

    def next(self):
        try:
            kind = super().next()
        except ProtocolError5:
            raise
        except ProtocolError as e:
            raise ProtocolError5(str(e), MALFORMED)
        if kind and kind != PUBLISH:
            self.code = self.block = 0
            if self.at < self.start:
                self._read_code(kind)
        return kind

    def _refuse_length(self, kind, n):
        # Asked at each step of a packet that is longer than the buffer: an error would cost its text each time.
        from .long5 import too_long

        return too_long(self, kind, n)

    def _id(self, i):
        try:
            return super()._id(i)
        except ProtocolError as e:
            raise ProtocolError5(str(e), ERROR)

    def _check(self, i, end, where):
        self.block = i
        if i < end and not self.buf[i]:
            return i + 1
        if where == IN_PUBLISH and self.identifier(i, end):
            return i + 5
        return self._load_cursor().check(i, end, where)

    def identifier(self, i, end):
        """The Subscription Identifier of three bytes, as our SUBSCRIBEs have it, if that is the only property of the
        block at buf[i]; else 0. Many messages have no other one, and need no Cursor."""
        buf = self.buf
        if end - i < 5 or buf[i] != 4 or buf[i + 1] != _SUBSCRIPTION or not buf[i + 2] & buf[i + 3] & 0x80:
            return 0
        return buf[i + 2] & 0x7F | (buf[i + 3] & 0x7F) << 7 | buf[i + 4] << 14 if 0 < buf[i + 4] < 0x80 else 0

    def _load_cursor(self):
        if not self.cursor:
            from .cursor import Cursor

            self.cursor = Cursor(self.buf)
        return self.cursor

    def properties(self, where):
        """Returns a Cursor at the beginning of the properties of the last packet. where: as cursor has it."""
        cursor = self._load_cursor()
        cursor.start(self.block, len(self.buf), where)
        return cursor

    def _read_code(self, kind):
        i = self.at
        end = self.start
        if kind == SUBACK or kind == UNSUBACK:
            i = self._check(i, end, self.places[kind])
            self.at = i
            self.n = end - i
            if self.n:
                return
            i -= 1  # one code at least
        else:
            if kind == CONNACK:
                i += 1
            self.code = self.buf[i]
            i += 1
            if i < end:
                try:
                    i = self._check(i, end, self.places[kind])
                except ProtocolError:
                    if kind != CONNACK or self.code < _FAILURE:
                        raise
                    i = -1
            if kind == CONNACK and i != end and self.code >= _FAILURE:
                self.block = 0  # a refusal, whatever is behind it
                return
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
        return code == 0 or code == _NO_SUBSCRIBERS or code >= _FAILURE

    # --- PUBLISH: for the decoder of level 4 the properties are the beginning of the payload ---

    def _publish(self, i, n):
        buf = self.buf
        if i + 2 <= self.end and not (buf[i] or buf[i + 1]):
            raise ProtocolError5("no topic", ERROR)  # [MQTT5-3.3.2-1]
        if i - self.start + n > len(buf):
            from .long5 import publish_long

            return publish_long(self, i, n)
        begin = self.start
        kind = super()._publish(i, n)
        if kind:
            end = self.start
            self.start = begin  # until its properties are known to be in order
            behind = self._check(self.at, end, IN_PUBLISH)
            self.start = end
            self.n = self.size = end - behind
            self.at = behind
        return kind

    def _piece(self):
        if self._block_due:
            from .long5 import properties_arrived

            properties_arrived(self)
        return super()._piece()
