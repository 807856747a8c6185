# The broker's side of a session under test: feeds it packets, and reads the packets that it sends.


import inflight.packet as packet
from harness import eq
from inflight.counters import NAMES as COUNTERS
from inflight.flash.flash import RamFlash
from inflight.journal.journal import Journal
from inflight.session.session import Session

PING = b"\xc0\x00"


def two(mid):
    return bytes([mid >> 8, mid & 255])


def ack(first, mid):
    return bytes([first, 2]) + two(mid)


def message(topic, payload, qos=0, mid=1, dup=0, retain=0):
    body = two(len(topic)) + topic + (two(mid) if qos else b"") + payload
    assert len(body) < 128
    return bytes([0x30 | dup << 3 | qos << 1 | retain, len(body)]) + body


def split(data):
    """Splits data into packets."""
    out = []
    i = 0
    while i < len(data):
        n = packet.length(data, i)
        out.append(data[i : i + n])
        i += n
    return out


def mid_of(raw):
    """The Message ID of a short PUBLISH packet."""
    at = 4 + (raw[2] << 8 | raw[3])
    return raw[at] << 8 | raw[at + 1]


class Peer:
    """A session with a test in the broker's place, and a clock that the test advances."""

    session_class = Session
    client_id = b"dev"

    def __init__(self, device=None, buffer=256, **options):
        self.now = 0
        self.got = []
        journal = Journal(device) if device else Journal(RamFlash())
        self.session = self.session_class(journal, bytearray(buffer), self.client_id, **options)

    @classmethod
    def connected(cls, *args, present=0, **options):
        """A peer with a connection."""
        peer = cls(*args, **options)
        peer.up(present)
        return peer

    @property
    def notices(self):
        """What the application is to be told."""
        return self.session.notices

    def written(self):
        """All pending bytes."""
        s = self.session
        out = b""
        n = s.data_to_send(self.now)
        while n:
            out += bytes(s.view[s.out_at : s.out_at + n])
            n = s.data_to_send(self.now)
        return out

    def sent(self):
        """All pending packets."""
        return split(self.written())

    def feed(self, data):
        """Gives data to the session. Returns the packets that it sends meanwhile."""
        s = self.session
        out = b""
        i = 0
        while i < len(data):
            n = min(s.space, len(data) - i)
            s.into[:n] = data[i : i + n]
            s.bytes_received(n, self.now)
            i += n
            kind = s.next_event(self.now)
            while kind:
                if kind == packet.PUBLISH:
                    self.note()
                    s.delivered()
                out += self.written()
                kind = s.next_event(self.now)
        return split(out)

    def note(self):
        s = self.session
        if s.deliver:
            d = s
            self.got.append((bytes(d.buf[d.at : d.at + d.n]), s.redelivered))

    def up(self, present=0, clean=False):
        """Makes a new connection. Returns the packets that the session sends after CONNACK."""
        self.session.connect(self.now, clean, 60, None, None, None)
        eq(self.sent()[0][0], 0x10)
        eq(self.feed(bytes([0x20, 2, present, 0])), [])
        self.session.resume()
        return self.sent()

    def publish(self, payload, qos=1, topic=b"t"):
        return self.session.publish(topic, payload, qos, False)

    def send(self, *args, **options):
        """Publishes a message. Returns the packets that leave."""
        self.publish(*args, **options)
        return self.sent()

    def publish_numbers(self, n, qos=1):
        """Publishes b"0", b"1" and so on."""
        for k in range(n):
            self.publish(b"%d" % k, qos)

    def count(self, name):
        return self.session.count[COUNTERS.split().index(name)]
