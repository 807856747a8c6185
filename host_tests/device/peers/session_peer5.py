# The broker's side of a session of level 5.

from harness import eq, raises
from inflight.level5.mqtt5 import Session5
from inflight.packet import ProtocolError
from session_peer import Peer
from tools.reference.properties import block
from tools.reference.wire import connack, parse

NONE = b"\0"  # properties of a packet that has none


class Peer5(Peer):
    """A Peer at level 5, which parses what the session sends."""

    session_class = Session5

    def __init__(self, device=None, buffer=256, **options):
        super().__init__(device, buffer, protocol_level=5, **options)

    @classmethod
    def calling(cls, *args, clean=False, **options):
        """A peer whose CONNECT has no answer yet."""
        peer = cls(*args, **options)
        peer.call(clean)
        return peer

    def call(self, clean=False, keepalive=60):
        """Begins a connection. Returns its CONNECT."""
        self.session.connect(self.now, clean, keepalive, None, None, None)
        return self.sent()[0]

    def answer(self, present=0, *announced):
        """CONNACK with these properties, (id, value). Returns what the session sends then."""
        eq(self.feed(connack(present, 0, block(*announced))), [])
        self.session.resume()
        return self.sent()

    def up(self, present=0, clean=False, *announced):
        """Makes a new connection. Returns the packets that the session sends after CONNACK."""
        self.call(clean)
        return self.answer(present, *announced)

    def sent(self):
        return [parse(raw, 5) for raw in super().sent()]

    def feed(self, data):
        return [parse(raw, 5) for raw in super().feed(data)]

    def publish(self, payload, qos=1, topic=b"t", retain=False, properties=None):
        self.session.attach(properties, self.now)
        return self.session.publish(topic, payload, qos, retain)

    def lose(self):
        """The connection breaks."""
        self.session.connection_lost()


def error_of(peer, data):
    """The reason code of the error that these bytes are."""
    return raises(ProtocolError, peer.feed, data).reason_code
