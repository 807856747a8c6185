"""The wire format: encodes a server's packets and parses a client's, refusing everything that the standard forbids a
client. Runs on MicroPython."""

import struct

from .kinds import CONNECT, DISCONNECT, NAMES, PINGREQ, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBSCRIBE, UNSUBSCRIBE


class Violation(AssertionError):
    """The client broke the protocol, or did not behave as a test expects."""


# --- what a server writes ---


def _mid(n):
    return struct.pack(">H", n)


def string(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">H", len(data)) + data


def packet(first, body=b""):
    """A packet with this first byte and body, and their remaining length."""
    n = len(body)
    digits = bytearray()
    while True:
        digits.append(n & 0x7F | (0x80 if n > 127 else 0))
        n >>= 7
        if not n:
            return bytes((first,)) + bytes(digits) + body


def connack(present=0, code=0):
    return packet(0x20, bytes((present, code)))


def publish(topic, payload=b"", qos=0, mid=0, dup=0, retain=0):
    head = string(topic) + (_mid(mid) if qos else b"")
    return packet(0x30 | dup << 3 | qos << 1 | retain, head + payload)


def puback(mid):
    return packet(0x40, _mid(mid))


def pubrec(mid):
    return packet(0x50, _mid(mid))


def pubrel(mid, dup=0):
    return packet(0x62 | dup << 3, _mid(mid))


def pubcomp(mid):
    return packet(0x70, _mid(mid))


def suback(mid, *codes):
    return packet(0x90, _mid(mid) + bytes(codes))


def unsuback(mid):
    return packet(0xB0, _mid(mid))


def pingresp():
    return packet(0xD0)


# --- what a server reads ---


def span(data, at=0):
    """(start of the body, end) of the packet that begins at data[at]; None if the remaining length is incomplete."""
    size = shift = 0
    i = at + 1
    while i < len(data):
        digit = data[i]
        i += 1
        size |= (digit & 0x7F) << shift
        if digit < 0x80:
            return i, i + size
        shift += 7
        if shift == 28:
            raise Violation("remaining length of five bytes")
    return None


def spans(data):
    """Yields (start, start of the body, end) of each whole packet at the beginning of data."""
    start, found = 0, span(data)
    while found and found[1] <= len(data):
        yield start, found[0], found[1]
        start, found = found[1], span(data, found[1])


class Packet:
    """A parsed packet of the client. Fields that its type does not have keep their defaults."""

    mid = 0
    topic = ""
    payload = b""
    qos = 0
    dup = retain = False
    filters = ()  # [(filter, qos)], qos None in UNSUBSCRIBE
    name = b""  # CONNECT, from here on
    level = 0
    clean = False
    keepalive = 0
    client_id = ""
    will = None  # (topic, payload, qos, retain)
    user = None
    password = None

    def __init__(self, raw):
        self.kind, self.flags, self.raw = raw[0] >> 4, raw[0] & 15, raw

    def __repr__(self):
        return "%s %r" % (NAMES[self.kind], self.raw[:40])


class _Fields:
    """Reads the fields of a packet's body one after the other; end() checks that nothing is left."""

    def __init__(self, body):
        self.body = body

    def take(self, n):
        if n > len(self.body):
            raise Violation("packet ends early: %r" % self.body[:40])
        part, self.body = self.body[:n], self.body[n:]
        return part

    def byte(self):
        return self.take(1)[0]

    def word(self):
        return struct.unpack(">H", self.take(2))[0]

    def mid(self):
        mid = self.word()
        if not mid:
            raise Violation("Message ID 0")
        return mid

    def data(self):
        return self.take(self.word())

    def text(self):
        try:
            text = self.data().decode("utf-8")  # CPython also refuses surrogates and overlong forms
        except UnicodeError as error:
            raise Violation("ill-formed UTF-8: %s" % error) from None
        if "\0" in text:
            raise Violation("U+0000 in a string")
        return text

    def rest(self):
        return self.take(len(self.body))

    def end(self):
        if self.body:
            raise Violation("%d bytes too many: %r" % (len(self.body), self.body[:40]))


def parse(raw, level=4):
    """The Packet that the client sent as `raw`; Violation if the standard forbids it."""
    p = Packet(raw)
    read = _PARSERS.get(p.kind)
    if not read:
        raise Violation("a client never sends %s" % NAMES[p.kind])
    # Level 3 marks a repeated PUBREL, SUBSCRIBE or UNSUBSCRIBE with DUP; level 4 reserves the bit.
    fixed = 2 if p.kind in (PUBREL, SUBSCRIBE, UNSUBSCRIBE) else 0
    allowed = (fixed, fixed | 8) if level == 3 and fixed else (fixed,)
    if p.kind != PUBLISH and p.flags not in allowed:
        raise Violation("flags %d of %s" % (p.flags, NAMES[p.kind]))
    p.dup = bool(p.flags & 8)
    f = _Fields(raw[span(raw)[0] :])
    read(p, f)
    f.end()
    return p


def _parse_connect(p, f):
    p.name, p.level, flags, p.keepalive = f.data(), f.byte(), f.byte(), f.word()
    if (p.name, p.level) not in ((b"MQTT", 4), (b"MQIsdp", 3)):
        raise Violation("protocol %r level %d" % (p.name, p.level))
    will_qos = flags >> 3 & 3
    if flags & 1 or will_qos == 3:
        raise Violation("connect flags %#x" % flags)
    if not flags & 4 and flags & 0x38:
        raise Violation("will QoS or retain without a will")
    if flags & 0x40 and not flags & 0x80:
        raise Violation("password without user name")
    p.clean = bool(flags & 2)
    p.client_id = f.text()
    if flags & 4:
        p.will = (f.text(), f.data(), will_qos, bool(flags & 0x20))
    if flags & 0x80:
        p.user = f.text()
    if flags & 0x40:
        p.password = f.data()
    if p.level == 3 and not 1 <= len(p.client_id) <= 23:
        raise Violation("client id of level 3")
    if not p.client_id and not p.clean:
        raise Violation("empty client id without clean session")


def _parse_publish(p, f):
    p.qos, p.retain = p.flags >> 1 & 3, bool(p.flags & 1)
    p.topic = f.text()
    if p.qos == 3 or (p.dup and not p.qos):
        raise Violation("PUBLISH flags %d" % p.flags)
    if not p.topic or "+" in p.topic or "#" in p.topic:
        raise Violation("topic name %r" % p.topic)
    if p.qos:
        p.mid = f.mid()
    p.payload = f.rest()


def _parse_ack(p, f):
    p.mid = f.mid()


def _parse_subscribe(p, f):
    p.mid = f.mid()
    p.filters = []
    while f.body:
        name = f.text()
        qos = f.byte() if p.kind == SUBSCRIBE else None
        if not name or (qos or 0) > 2:
            raise Violation("filter %r QoS %s" % (name, qos))
        p.filters.append((name, qos))
    if not p.filters:
        raise Violation("no filters")


def _parse_bare(p, f):
    pass


_PARSERS = {
    CONNECT: _parse_connect,
    PUBLISH: _parse_publish,
    PUBACK: _parse_ack,
    PUBREC: _parse_ack,
    PUBREL: _parse_ack,
    PUBCOMP: _parse_ack,
    SUBSCRIBE: _parse_subscribe,
    UNSUBSCRIBE: _parse_subscribe,
    PINGREQ: _parse_bare,
    DISCONNECT: _parse_bare,
}


class Stream:
    """Splits the bytes of one connection into packets. CONNECT must be first and only once, DISCONNECT last."""

    def __init__(self):
        self.level = 4
        self._data = bytearray()
        self._at = 0  # where the next packet begins
        self._count = 0  # packets so far
        self._disconnected = False  # DISCONNECT was received

    @property
    def incomplete(self):
        """How many bytes of an incomplete packet were received."""
        return len(self._data) - self._at

    def bytes_received(self, data):
        self._data = self._data[self._at :] + data
        self._at = 0

    def next_packet(self):
        """Returns the next Packet, None if it is not complete. Raises Violation."""
        found = span(self._data, self._at)
        if not found or len(self._data) < found[1]:
            return None
        p = parse(bytes(self._data[self._at : found[1]]), self.level)
        self._at = found[1]
        self._count += 1
        if (p.kind == CONNECT) != (self._count == 1):
            raise Violation("%r is packet %d of the connection" % (p, self._count))
        if self._disconnected:
            raise Violation("%r after DISCONNECT" % p)
        if p.kind == CONNECT:
            self.level = p.level
        self._disconnected = p.kind == DISCONNECT
        return p
