"""A server without sockets, threads or time: packets of a client in, packets for it out. The server itself is correct;
its users inject faults: they lose, delay, reorder and repeat its packets, and call forget().

Its state is plain containers of immutable values, so copy() is quick: the crash explorer copies it before each
operation of the flash."""

from collections import namedtuple

from tools.reference import kinds, properties, wire
from tools.reference.kinds import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL

Message = namedtuple("Message", "topic payload qos retain")

# Who assigned the Message ID of a packet (NOBODY: it has none). Packets with the same owner and id keep their order.
NOBODY, CLIENT, SERVER = range(3)
_CONTAINERS = {dict, set, list}


class Copyable:
    """An object whose state can be kept."""

    def copy(self):
        """With copies of its containers."""
        other = self.__class__.__new__(self.__class__)
        fields = other.__dict__
        for name, value in self.__dict__.items():
            fields[name] = value.copy() if value.__class__ in _CONTAINERS else value
        return other


class Session(Copyable):
    """The session state of a client; without clean session it outlives the connection."""

    def __init__(self):
        self.subscriptions = {}  # filter: QoS
        self.unreleased = {}  # Message ID of a QoS 2 PUBLISH received before its PUBREL: (topic, payload)
        self.flight = {}  # Message ID: (Message, whether PUBREC was received), to the client, in order
        self.queue = []  # Messages that wait until fewer are in flight
        self.last_mid = 0

    def publish_arrived(self, p):
        """Handles a PUBLISH. Returns whether it is a new message."""
        new = p.qos < 2 or p.mid not in self.unreleased
        if p.qos == 2:
            self.unreleased[p.mid] = (p.topic, p.payload)
        return new

    def pubrel_arrived(self, p):
        self.unreleased.pop(p.mid, None)

    def ack_arrived(self, p):
        """Handles a PUBACK, PUBREC or PUBCOMP. It is ignored if no message is in flight under its id."""
        message, _ = self.flight.get(p.mid, (None, False))
        if message and p.kind == PUBREC:
            self.flight[p.mid] = (message, True)
        elif message:
            del self.flight[p.mid]

    def dequeue(self):
        """Takes the next Message from the queue. Returns (Message ID, Message), id 0 for QoS 0."""
        message = self.queue.pop(0)
        if not message.qos:
            return 0, message
        self.last_mid = self.last_mid % 65535 + 1
        while self.last_mid in self.flight:
            self.last_mid = self.last_mid % 65535 + 1
        self.flight[self.last_mid] = (message, False)
        return self.last_mid, message


class Server(Copyable):
    """All sessions, by client id. `session`: their class; `window`: how many messages may be in flight to a client.
    announced: ((id, value), ...), the properties of a CONNACK of level 5."""

    def __init__(self, session=Session, window=65535, announced=()):
        self.session = session
        self.window = window
        self.announced = announced
        self._assigned = 0
        self.sessions = {}

    def copy(self):
        other = super().copy()
        other.sessions = {name: session.copy() for name, session in self.sessions.items()}
        return other

    def assign(self):
        """Returns a client id that nobody has."""
        self._assigned += 1
        return "assigned-%d" % self._assigned

    def forget(self):
        """Loses all sessions, like a server restarted without persistence."""
        self.sessions.clear()


class Connection(Copyable):
    """A connection of a client. `out`: packets to send: (NOBODY, CLIENT or SERVER, Message ID, packet)."""

    def __init__(self, server):
        self.server = server
        self.session = None
        self.level = 4
        self.window = server.window
        self.aliases = {}  # alias: topic
        self.out = []
        self.held = []  # Message IDs of messages in flight that this connection has not had yet
        self.open = []  # those that it had, and that are not acknowledged

    def copy_to(self, server):
        """This connection to a copy of its server, whose sessions are copies."""
        other = self.copy()
        other.server = server
        if self.session:
            kept = [name for name, session in self.server.sessions.items() if session is self.session]
            other.session = server.sessions[kept[0]] if kept else self.session.copy()
        return other

    def data_to_send(self):
        """Returns all packets to send, in order, and removes them from `out`."""
        out, self.out = self.out, []
        return b"".join(raw for _, _, raw in out)

    def _send(self, whose, mid, raw):
        self.out.append((whose, mid, raw))

    def packet_received(self, p):
        """Handles a Packet of the client. Returns whether it is a PUBLISH with a new message."""
        return bool(_HANDLERS[p.kind](self, p))

    def send_queued(self):
        """Sends the next queued message if fewer than `window` are in flight. Returns whether it did."""
        session = self.session
        if not session or not session.queue or len(session.flight) >= self.window:
            return False
        mid, message = session.dequeue()
        self._send_publish(mid, message, 0)
        return True

    def redeliver(self, mid):
        """Sends the PUBLISH or PUBREL of a message in flight again."""
        message, released = self.session.flight[mid]
        if released:
            self._send(SERVER, mid, wire.pubrel(mid, int(self.level == 3)))
        else:
            self._send_publish(mid, message, 1)

    def _may_send(self):
        # [MQTT5-3.3.4-9] Those in flight of another connection count as soon as they are sent on this one.
        return self.level < 5 or len(self.open) < self.window

    def _send_publish(self, mid, message, dup):
        if mid and mid not in self.open:
            self.open.append(mid)
        raw = wire.publish(message.topic, message.payload, message.qos, mid, dup, message.retain, self._no_properties)
        self._send(SERVER if mid else NOBODY, mid, raw)

    @property
    def _no_properties(self):
        # What stands in a packet that has none.
        return b"\0" if self.level == 5 else None

    def _code(self, code):
        # A reason code other than 0, where there are such.
        return code if self.level == 5 and code else None

    def _connect(self, p):
        self.level = p.level
        server = self.server
        sessions = server.sessions
        given = dict(p.properties)
        name, announced = p.client_id, server.announced
        if p.level == 5 and not name:  # [MQTT5-3.1.3-7]
            name = server.assign()
            announced += ((0x12, name),)
        if p.clean:
            sessions.pop(name, None)
        present = name in sessions
        self.session = sessions.pop(name) if present else server.session()
        if given.get(0x11) if p.level == 5 else not p.clean:  # else it ends with the connection [MQTT5-3.1.2-23]
            sessions[name] = self.session
        self.window = min(server.window, given.get(0x21, 65535))  # [MQTT5-3.3.4-9]
        block = properties.block(*announced) if p.level == 5 else None
        self._send(NOBODY, 0, wire.connack(int(present and p.level > 3), 0, block))
        for mid, (_, released) in self.session.flight.items():
            if released or self._may_send():
                self.redeliver(mid)
            else:
                self.held.append(mid)

    def resolve(self, p):
        """Gives a PUBLISH the topic that its alias stands for. Raises Violation. [MQTT5-3.3.2-7] [MQTT5-3.3.2-9]"""
        alias = dict(p.properties).get(0x23)
        if alias is None:
            return
        if alias > dict(self.server.announced).get(0x22, 0):
            raise wire.Violation("topic alias %d" % alias)
        if p.topic:
            self.aliases[alias] = p.topic
        elif alias not in self.aliases:
            raise wire.Violation("topic alias %d is unknown" % alias)
        p.topic = self.aliases[alias]

    def _publish(self, p):
        self.resolve(p)
        new = self.session.publish_arrived(p)
        if p.qos:
            self._send(CLIENT, p.mid, wire.puback(p.mid) if p.qos == 1 else wire.pubrec(p.mid))
        return new

    def _pubrel(self, p):
        code = self._code(0 if p.mid in self.session.unreleased else 0x92)
        self.session.pubrel_arrived(p)
        self._send(CLIENT, p.mid, wire.pubcomp(p.mid, code))

    def _ack(self, p):
        code = self._code(0 if p.mid in self.session.flight else 0x92)
        self.session.ack_arrived(p)
        if p.mid in self.open and p.mid not in self.session.flight:
            self.open.remove(p.mid)
        if p.kind == PUBREC:
            self._send(SERVER, p.mid, wire.pubrel(p.mid, 0, code))
        while self.held and self._may_send():
            self.redeliver(self.held.pop(0))

    def _subscribe(self, p):
        self.session.subscriptions.update(p.filters)
        codes = [qos for _, qos in p.filters]
        self._send(CLIENT, p.mid, wire.suback(p.mid, *codes, properties=self._no_properties))

    def _unsubscribe(self, p):
        found = [self.session.subscriptions.pop(name, None) for name, _ in p.filters]
        codes = [0x11 if qos is None else 0 for qos in found] if self.level == 5 else []
        self._send(CLIENT, p.mid, wire.unsuback(p.mid, *codes, properties=self._no_properties))

    def _ping(self, p):
        self._send(NOBODY, 0, wire.pingresp())

    def _disconnect(self, p):
        # The owner of the socket closes it.
        sessions = self.server.sessions
        if self.level == 5 and dict(p.properties).get(0x11) == 0:  # the session ends now
            for name in [name for name in sessions if sessions[name] is self.session]:
                del sessions[name]


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
