# Reads a block of properties of MQTT 5 where it stands in the receive buffer: nothing is copied, no object is made. A
# block is walked once with all checks before its packet counts; what asks for a value walks it again.
#
# Each error has the reason code for DISCONNECT: 0x81 malformed, 0x82 protocol error.

from ..compat import const
from ..packet import MALFORMED, ProtocolError, valid

IN_CONNACK = const(8)  # where a block stands: one of these
IN_PUBLISH = const(16)
IN_ACK = const(32)  # PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK
IN_DISCONNECT = const(64)
IN_AUTH = const(128)

TEXT = const(0x01)
EXPIRY = const(0x02)
CONTENT_TYPE = const(0x03)
RESPONSE_TOPIC = const(0x08)
CORRELATION = const(0x09)
SUBSCRIPTION = const(0x0B)
SESSION_EXPIRY = const(0x11)
CLIENT_ID = const(0x12)
SERVER_KEEP_ALIVE = const(0x13)
AUTH_METHOD = const(0x15)
AUTH_DATA = const(0x16)
RESPONSE_INFORMATION = const(0x1A)
SERVER_REFERENCE = const(0x1C)
REASON = const(0x1F)
RECEIVE_MAXIMUM = const(0x21)
ALIAS_MAXIMUM = const(0x22)
ALIAS = const(0x23)
MAXIMUM_QOS = const(0x24)
RETAIN_AVAILABLE = const(0x25)
USER = const(0x26)
MAXIMUM_SIZE = const(0x27)
IDENTIFIERS_AVAILABLE = const(0x29)

_NO_ALIAS = const(0x94)

FLAG = const(1)  # forms of values: a byte 0 or 1,
TWO = const(2)  # 2 bytes,
FOUR = const(3)  # 4 bytes,
VAR = const(4)  # variable byte integer,
UTF_8 = const(5)  # UTF-8,
BINARY = const(6)
PAIR = const(7)  # two texts

# By id: its form, and where it may stand on the way to a client; 0: nowhere.
# fmt: off
TABLE = bytes((
    0, FLAG | 16, FOUR | 16, UTF_8 | 16, 0, 0, 0, 0,  # 00
    UTF_8 | 16, BINARY | 16, 0, VAR | 16, 0, 0, 0, 0,  # 08
    0, FOUR | 8, UTF_8 | 8, TWO | 8, 0, UTF_8 | 8 | 128, BINARY | 8 | 128, 0,  # 10
    0, 0, UTF_8 | 8, 0, UTF_8 | 8 | 64, 0, 0, UTF_8 | 8 | 32 | 64 | 128,  # 18
    0, TWO | 8, TWO | 8, TWO | 16, FLAG | 8, FLAG | 8, PAIR | 8 | 16 | 32 | 64 | 128, FOUR | 8,  # 20
    FLAG | 8, FLAG | 8, FLAG | 8,  # 28
))
# fmt: on


def _malformed():
    raise ProtocolError("malformed properties", MALFORMED)


def refuse_alias():
    """Raises ProtocolError: no CONNECT of ours allows any [MQTT5-3.1.2-27] [MQTT5-3.3.2-8] [MQTT5-3.3.2-11]."""
    raise ProtocolError("invalid topic alias", _NO_ALIAS)


class Cursor:
    """Walks one block at a time in `buf`. `at` and `n` tell where the value of the last property stands, without the
    length of a text or of binary data; of a pair the whole of both texts with their lengths."""

    def __init__(self, buf):
        self._buf = buf
        self.at = self.n = 0
        self._i = self._end = 0
        self._where = 0
        self._seen_low = self._seen_high = 0

    def start(self, i, end, where):
        """Begins with the block whose length stands at buf[i], in a packet up to `end`. Returns the index behind it.
        Raises ProtocolError."""
        size = self._variable(i, end)
        self._end = self._i + size
        if self._end > end:
            _malformed()
        self._where = where
        self._seen_low = self._seen_high = 0
        return self._end

    def check(self, i, end, where):
        """Checks the whole block at buf[i]. Returns the index behind it. Raises ProtocolError. [MQTT5-1.5.4-1]
        [MQTT5-1.5.5-1] [MQTT5-1.5.7-1]"""
        behind = self.start(i, end, where)
        while self.next():
            pass
        return behind

    def find(self, kind):
        """True if the block has another property of this kind, which is the last one then."""
        found = self.next()
        while found and found != kind:
            found = self.next()
        return found > 0

    def next(self):
        """Returns the id of the next property, 0: there is none. Raises ProtocolError."""
        i = self._i
        if i == self._end:
            return 0
        kind = self._buf[i]
        entry = TABLE[kind] if kind < 43 else 0
        if not entry:
            _malformed()
        if not entry & self._where:
            raise ProtocolError("unexpected property %02x" % kind)
        self._once(kind)
        self._value(i + 1, entry & 7)
        if not self._allowed(kind, entry & 7):
            raise ProtocolError("invalid value of property %02x" % kind)
        return kind

    def _once(self, kind):
        # Only user properties, and the identifiers of several subscriptions, come more than once.
        if kind == USER or kind == SUBSCRIPTION:
            return
        if kind < 30:
            twice = self._seen_low >> kind & 1
            self._seen_low |= 1 << kind
        else:
            twice = self._seen_high >> kind - 30 & 1
            self._seen_high |= 1 << kind - 30
        if twice:
            raise ProtocolError("property %02x comes twice" % kind)

    def _value(self, i, form):
        # Sets at and n of the value at buf[i].
        if form == PAIR:
            behind = self._text(self._text(i))
            self.at = i
            self.n = behind - i
        elif form == UTF_8:
            behind = self._text(i)
        elif form == BINARY:
            behind = self._binary(i)
        else:
            if form == VAR:
                self._variable(i, self._end)
                self.n = self._i - i
            else:
                self.n = 4 if form == FOUR else form
            self.at = i
            behind = i + self.n
        if behind > self._end:
            _malformed()
        self._i = behind

    def _binary(self, i):
        # Sets at and n. Returns the index behind.
        if i + 2 > self._end:
            _malformed()
        self.n = self._buf[i] << 8 | self._buf[i + 1]
        self.at = i + 2
        return i + 2 + self.n

    def _text(self, i):
        behind = self._binary(i)
        if behind > self._end or not valid(self._buf, self.at, behind, False, False):
            _malformed()
        return behind

    def _allowed(self, kind, form):
        buf = self._buf
        i = self.at
        if form == FLAG:
            return buf[i] < 2
        if kind == ALIAS:
            refuse_alias()
        if kind == RECEIVE_MAXIMUM:
            return buf[i] or buf[i + 1]
        if kind == MAXIMUM_SIZE:
            return buf[i] or buf[i + 1] or buf[i + 2] or buf[i + 3]
        if kind == SUBSCRIPTION:
            return buf[i]
        if kind == RESPONSE_TOPIC:
            return self.n and valid(buf, i, i + self.n, True, False)
        return True

    def _variable(self, i, end):
        # Returns the variable byte integer at buf[i], the shortest form alone; _i is behind it.
        n = shift = 0
        c = 0x80
        while c & 0x80:
            if shift > 21 or i >= end:
                _malformed()
            c = self._buf[i]
            i += 1
            n |= (c & 0x7F) << shift
            shift += 7
        if not c and shift > 7:
            _malformed()
        self._i = i
        return n

    # --- values, made when they are asked for ---

    def number(self):
        """The number that was found; not for a variable byte integer."""
        return int.from_bytes(self._buf[self.at : self.at + self.n], "big")

    def identifier(self):
        """The Subscription Identifier that was found."""
        return self._variable(self.at, self._end)

    def data(self):
        """The binary data, or the text, that was found: bytes."""
        return bytes(self._buf[self.at : self.at + self.n])

    def text(self):
        """The text that was found."""
        return str(self._buf[self.at : self.at + self.n], "utf-8")

    def pair(self):
        """(name, value) of the user property that was found."""
        buf = self._buf
        i = self.at
        middle = i + 2 + (buf[i] << 8 | buf[i + 1])
        return str(buf[i + 2 : middle], "utf-8"), str(buf[middle + 2 : i + self.n], "utf-8")


# --- how many bytes the remaining length of a packet takes, which properties change ---


def digits_for(n):
    """How many bytes the remaining length n takes."""
    return 1 if n < 128 else 2 if n < 16384 else 3 if n < 2097152 else 4


def digits_in(size):
    """How many bytes the remaining length takes in a packet of this size."""
    return 1 if size < 130 else 2 if size < 16387 else 3 if size < 2097156 else 4
