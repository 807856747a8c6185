"""A server without sockets, threads or time: packets of a client in, packets for it out. It is well behaved; what is to
go wrong its users do: they lose, delay, reorder and repeat what it says, and let it forget().

Its state is plain containers of immutable values, so that copy() is quick: the crash explorer keeps a copy of each
instant."""

from collections import namedtuple

from . import kinds, wire
from .kinds import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL

Message = namedtuple("Message", "topic payload qos retain")

# Whose Message ID a packet bears. Packets of one id keep their order; with NOBODY they keep it among themselves.
NOBODY, CLIENT, SERVER = range(3)


def copied(thing, *names):
    """A copy of an object, with copies of the containers in these attributes."""
    other = thing.__class__.__new__(thing.__class__)
    fields = other.__dict__
    fields.update(thing.__dict__)
    for name in names:
        fields[name] = fields[name].copy()
    return other


class Session:
    """What the server keeps of a client, beyond its connections unless it asked for a clean session."""

    def __init__(self):
        self.subscriptions = {}  # filter: QoS
        self.held = {}  # Message ID of a QoS 2 PUBLISH whose PUBREL has not come: (topic, payload)
        self.flight = {}  # Message ID: (Message, whether PUBREC has come), towards the client, in order
        self.queue = []  # Messages that wait for a place in flight
        self.last_mid = 0

    def copy(self):
        return copied(self, "subscriptions", "held", "flight", "queue")

    def publish_arrived(self, p):
        """A PUBLISH of the client. Returns whether it is a new message."""
        new = p.qos < 2 or p.mid not in self.held
        if p.qos == 2:
            self.held[p.mid] = (p.topic, p.payload)
        return new

    def release_arrived(self, p):
        """A PUBREL of the client."""
        self.held.pop(p.mid, None)

    def ack_arrived(self, p):
        """A PUBACK, PUBREC or PUBCOMP of the client. Those of no message in flight change nothing."""
        message, _ = self.flight.get(p.mid, (None, False))
        if message and p.kind == PUBREC:
            self.flight[p.mid] = (message, True)
        elif message:
            del self.flight[p.mid]

    def take_off(self):
        """The next Message of the queue gets a Message ID. Returns (id, Message), id 0 for QoS 0."""
        message = self.queue.pop(0)
        if not message.qos:
            return 0, message
        self.last_mid = self.last_mid % 65535 + 1
        while self.last_mid in self.flight:
            self.last_mid = self.last_mid % 65535 + 1
        self.flight[self.last_mid] = (message, False)
        return self.last_mid, message


class Server:
    """All sessions, by client id. `session`: their class; `window`: how many messages may be in flight to a client."""

    def __init__(self, session=Session, window=65535):
        self.session = session
        self.window = window
        self.sessions = {}

    def copy(self):
        other = copied(self)
        other.sessions = {name: session.copy() for name, session in self.sessions.items()}
        return other

    def forget(self):
        """Loses all sessions, as a server that is restarted without persistence."""
        self.sessions.clear()


class Connection:
    """A connection of a client. `out`: what there is to send: (whose Message ID, that id, packet)."""

    def __init__(self, server):
        self.server = server
        self.session = None
        self.level = 4
        self.out = []

    def copy(self, server):
        """This connection to a copy of its server, whose sessions are copies."""
        other = copied(self, "out")
        other.server = server
        if self.session:
            kept = [name for name, session in self.server.sessions.items() if session is self.session]
            other.session = server.sessions[kept[0]] if kept else self.session.copy()
        return other

    def data_to_send(self):
        """Takes all there is, in order."""
        out, self.out = self.out, []
        return b"".join(raw for _, _, raw in out)

    def _say(self, whose, mid, raw):
        self.out.append((whose, mid, raw))

    def packet_received(self, p):
        """Handles a Packet of the client. Returns whether it is a PUBLISH that brings a new message."""
        return bool(_HANDLERS[p.kind](self, p))

    def hand_out(self):
        """The next message that waits for the client goes on its way, if the window has a place. Returns whether one
        did."""
        session = self.session
        if not session or not session.queue or len(session.flight) >= self.server.window:
            return False
        mid, message = session.take_off()
        self._say_publish(mid, message, 0)
        return True

    def repeat(self, mid):
        """A message in flight goes out once more."""
        message, released = self.session.flight[mid]
        if released:
            self._say(SERVER, mid, wire.pubrel(mid, int(self.level == 3)))
        else:
            self._say_publish(mid, message, 1)

    def _say_publish(self, mid, message, dup):
        raw = wire.publish(message.topic, message.payload, message.qos, mid, dup, message.retain)
        self._say(SERVER if mid else NOBODY, mid, raw)

    def _connect(self, p):
        self.level = p.level
        sessions = self.server.sessions
        if p.clean:
            sessions.pop(p.client_id, None)
        present = p.client_id in sessions
        self.session = sessions[p.client_id] if present else self.server.session()
        if not p.clean:
            sessions[p.client_id] = self.session
        self._say(NOBODY, 0, wire.connack(int(present and p.level > 3)))
        for mid in self.session.flight:
            self.repeat(mid)

    def _publish(self, p):
        new = self.session.publish_arrived(p)
        if p.qos:
            self._say(CLIENT, p.mid, wire.puback(p.mid) if p.qos == 1 else wire.pubrec(p.mid))
        return new

    def _pubrel(self, p):
        self.session.release_arrived(p)
        self._say(CLIENT, p.mid, wire.pubcomp(p.mid))

    def _ack(self, p):
        self.session.ack_arrived(p)
        if p.kind == PUBREC:
            self._say(SERVER, p.mid, wire.pubrel(p.mid))

    def _subscribe(self, p):
        self.session.subscriptions.update(p.filters)
        self._say(CLIENT, p.mid, wire.suback(p.mid, *(qos for _, qos in p.filters)))

    def _unsubscribe(self, p):
        for name, _ in p.filters:
            self.session.subscriptions.pop(name, None)
        self._say(CLIENT, p.mid, wire.unsuback(p.mid))

    def _ping(self, p):
        self._say(NOBODY, 0, wire.pingresp())

    def _disconnect(self, p):
        pass  # whoever has the socket closes it


_HANDLERS = {
    kinds.CONNECT: Connection._connect,
    PUBLISH: Connection._publish,
    PUBREL: Connection._pubrel,
    PUBACK: Connection._ack,
    PUBREC: Connection._ack,
    PUBCOMP: Connection._ack,
    kinds.SUBSCRIBE: Connection._subscribe,
    kinds.UNSUBSCRIBE: Connection._unsubscribe,
    kinds.PINGREQ: Connection._ping,
    kinds.DISCONNECT: Connection._disconnect,
}
