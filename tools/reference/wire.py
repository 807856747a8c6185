"""The wire format: encodes a server's packets and parses a client's, refusing everything that the standard forbids a
client. Runs on MicroPython."""

from tools.reference import kinds
from tools.reference.properties import OF_CLIENT, WILL, read, string, variable


class Violation(AssertionError):
    """The client broke the protocol, or did not behave as a test expects."""


# --- what a server writes ---
# `properties`: a block of level 5 as properties.block() makes it; None: the packet is one of level 3 or 4.


def _mid(n):
    return n.to_bytes(2, "big")


def packet(first, body=b""):
    """A packet with this first byte and body, and their remaining length."""
    return bytes((first,)) + variable(len(body)) + body


def connack(present=0, code=0, properties=None):
    return packet(0x20, bytes((present, code)) + (properties or b""))


def publish(topic, payload=b"", qos=0, mid=0, dup=0, retain=0, properties=None):
    head = string(topic) + (_mid(mid) if qos else b"") + (properties or b"")
    return packet(0x30 | dup << 3 | qos << 1 | retain, head + payload)


def _ack(first, mid, code, properties):
    # At level 5 a code may be left out if it is 0, properties if there are none.
    return packet(first, _mid(mid) + (b"" if code is None else bytes((code,)) + (properties or b"")))


def puback(mid, code=None, properties=None):
    return _ack(0x40, mid, code, properties)


def pubrec(mid, code=None, properties=None):
    return _ack(0x50, mid, code, properties)


def pubrel(mid, dup=0, code=None, properties=None):
    return _ack(0x62 | dup << 3, mid, code, properties)


def pubcomp(mid, code=None, properties=None):
    return _ack(0x70, mid, code, properties)


def suback(mid, *codes, properties=None):
    return packet(0x90, _mid(mid) + (properties or b"") + bytes(codes))


def unsuback(mid, *codes, properties=None):
    return packet(0xB0, _mid(mid) + (properties or b"") + bytes(codes))


def pingresp():
    return packet(0xD0)


def disconnect(code=0, properties=b"\x00"):
    """Of level 5: a server never sends another one."""
    return packet(0xE0, bytes((code,)) + properties)


def auth(code, properties):
    return packet(0xF0, bytes((code,)) + properties)


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
    options = ()  # at level 5: the other bits of each filter's options
    code = 0  # reason code of level 5
    properties = ()  # of level 5: [(id, value)]
    will_properties = ()
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
        return "%s %r" % (kinds.NAMES[self.kind], self.raw[:40])


class Fields:
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
        return int.from_bytes(self.take(2), "big")

    def variable(self):
        n = shift = 0
        while True:
            digit = self.byte()
            n |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                break
            if shift == 28:
                raise Violation("variable byte integer of five bytes")
        if not digit and shift > 7:  # [MQTT5-1.5.5-1]
            raise Violation("variable byte integer is not the shortest")
        return n

    def properties(self, packet, places=OF_CLIENT):
        return read(self, packet, places, Violation)

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
    if not read or (p.kind == kinds.AUTH and level < 5):
        raise Violation("a client never sends %s" % kinds.NAMES[p.kind])
    # Level 3 marks a repeated PUBREL, SUBSCRIBE or UNSUBSCRIBE with DUP; level 4 reserves the bit.
    fixed = 2 if p.kind in (kinds.PUBREL, kinds.SUBSCRIBE, kinds.UNSUBSCRIBE) else 0
    allowed = (fixed, fixed | 8) if level == 3 and fixed else (fixed,)
    if p.kind != kinds.PUBLISH and p.flags not in allowed:
        raise Violation("flags %d of %s" % (p.flags, kinds.NAMES[p.kind]))
    p.dup = bool(p.flags & 8)
    f = Fields(raw[span(raw)[0] :])
    read(p, f, level)
    f.end()
    return p


def _parse_connect(p, f, _):
    p.name, p.level, flags, p.keepalive = f.data(), f.byte(), f.byte(), f.word()
    if (p.name, p.level) not in ((b"MQTT", 4), (b"MQIsdp", 3), (b"MQTT", 5)):
        raise Violation("protocol %r level %d" % (p.name, p.level))
    if p.level == 5:
        p.properties = f.properties(kinds.CONNECT)
    will_qos = flags >> 3 & 3
    if flags & 1 or will_qos == 3:
        raise Violation("connect flags %#x" % flags)
    if not flags & 4 and flags & 0x38:
        raise Violation("will QoS or retain without a will")
    if flags & 0x40 and not flags & 0x80 and p.level < 5:
        raise Violation("password without user name")
    p.clean = bool(flags & 2)
    p.client_id = f.text()
    if flags & 4:
        if p.level == 5:
            p.will_properties = f.properties(WILL)
        p.will = (f.text(), f.data(), will_qos, bool(flags & 0x20))
    if flags & 0x80:
        p.user = f.text()
    if flags & 0x40:
        p.password = f.data()
    if p.level == 3 and not 1 <= len(p.client_id) <= 23:
        raise Violation("client id of level 3")
    if not p.client_id and not p.clean and p.level < 5:
        raise Violation("empty client id without clean session")


def _parse_publish(p, f, level):
    p.qos, p.retain = p.flags >> 1 & 3, bool(p.flags & 1)
    p.topic = f.text()
    if p.qos == 3 or (p.dup and not p.qos):
        raise Violation("PUBLISH flags %d" % p.flags)
    if p.qos:
        p.mid = f.mid()
    if level == 5:
        p.properties = f.properties(kinds.PUBLISH)
    if "+" in p.topic or "#" in p.topic or not (p.topic or 0x23 in [kind for kind, _ in p.properties]):
        raise Violation("topic name %r" % p.topic)
    p.payload = f.rest()


_CODES = {
    kinds.PUBACK: b"\x00\x10\x80\x83\x87\x90\x91\x97\x99",
    kinds.PUBREC: b"\x00\x10\x80\x83\x87\x90\x91\x97\x99",
    kinds.PUBREL: b"\x00\x92",
    kinds.PUBCOMP: b"\x00\x92",
    kinds.DISCONNECT: b"\x00\x04\x80\x81\x82\x83\x90\x93\x94\x95\x96\x97\x98\x99",
    kinds.AUTH: b"\x18\x19",
}


def _parse_code(p, f, level):
    # Acknowledgements, DISCONNECT and AUTH. At level 5 the code and the properties behind it may be left out.
    if p.kind < kinds.SUBSCRIBE:
        p.mid = f.mid()
    if level < 5:
        return
    if f.body:
        p.code = f.byte()
    if f.body:
        p.properties = f.properties(p.kind)
    if p.code not in _CODES[p.kind]:
        raise Violation("reason code %#x of %s" % (p.code, kinds.NAMES[p.kind]))


def _parse_subscribe(p, f, level):
    p.mid = f.mid()
    if level == 5:
        p.properties = f.properties(p.kind)
    p.filters = []
    p.options = []
    while f.body:
        name = f.text()
        options = f.byte() if p.kind == kinds.SUBSCRIBE else 0
        shared = name[:7] == "$share/"
        wrong = options & 3 == 3 or options & 0xC0 or options & 0x30 == 0x30 or (shared and options & 4)
        if not name or wrong or (level < 5 and options > 2):
            raise Violation("filter %r options %#x" % (name, options))
        p.filters.append((name, options & 3 if p.kind == kinds.SUBSCRIBE else None))
        p.options.append(options & 0x3C)
    if not p.filters:
        raise Violation("no filters")


_PARSERS = {
    kinds.CONNECT: _parse_connect,
    kinds.PUBLISH: _parse_publish,
    kinds.SUBSCRIBE: _parse_subscribe,
    kinds.UNSUBSCRIBE: _parse_subscribe,
    kinds.PINGREQ: lambda p, f, level: None,
}
_PARSERS.update({kind: _parse_code for kind in _CODES})  # AUTH of level 5 alone


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
        if (p.kind == kinds.CONNECT) != (self._count == 1):
            raise Violation("%r is packet %d of the connection" % (p, self._count))
        if self._disconnected:
            raise Violation("%r after DISCONNECT" % p)
        if p.kind == kinds.CONNECT:
            self.level = p.level
        self._disconnected = p.kind == kinds.DISCONNECT
        return p
