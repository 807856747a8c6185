"""The broker side of a simulation: the reference server with one session, which checks the packets that it receives.

Packets of the client wait in `uplink` until arrive() is called. Packets of the server wait in `answers`; the script
decides when each is delivered, and in which order."""

from tools.crash.messages import incoming, number_of
from tools.reference import kinds
from tools.reference.oracle import OTHER, Finding, Incoming, JudgedSession, Outgoing
from tools.reference.server import Connection, Copyable, Server
from tools.reference.wire import parse

NAME = "dev"  # the client's
PROPERTIES = [(3, "t")]  # of some messages at level 5
ALIAS = 0x23
EXPIRY = 0x11  # of a session, in seconds
ANNOUNCED = ((0x22, 2),)  # at level 5: two topic aliases are allowed


class Peer(Copyable):
    def __init__(self):
        self.out = Outgoing()
        self.inc = Incoming()
        self.level = 4  # of the client's last CONNECT
        self.with_properties = set()  # numbers of messages that the application published with PROPERTIES at level 5
        self.window = 1  # max_inflight of the client
        self.aliases = {}  # alias: topic, as the client wrote them on this connection
        self.server = Server(JudgedSession, 10, ANNOUNCED)
        self.provoked = False  # the broker violated the protocol: the client may close the connection
        self.new = False  # this connection began a new session
        self.client_knows = True  # the client knows that its session is new
        self.uplink = []  # packets, parsed
        self._connection = Connection(self.server)

    def copy(self):
        other = super().copy()
        other.out, other.inc, other.server = self.out.copy(), self.inc.copy(), self.server.copy()
        other._connection = self._connection.copy_to(other.server)
        return other

    @property
    def session(self):
        """The client's session on the server, None if it has none."""
        return self._connection.session or self.server.sessions.get(NAME)

    @property
    def answers(self):
        return self._connection.out

    # --- events ---

    def add_foreign_session(self, mids):
        """Adds a session under the client's id that belongs to another journal: these Message IDs are in use, and
        messages are queued."""
        self.server.sessions[NAME] = JudgedSession()
        self.session.unreleased = dict.fromkeys(mids)
        self.session.subscriptions["in/#"] = 2
        for mid in mids:
            self.publish_to_client(1 + mid % 2, 20)

    def lose_session(self):
        """The server loses the session, and all messages to the client with it."""
        self._excuse()
        self.server.forget()

    def publish_to_client(self, qos, size):
        """Queues a message for the client if it has subscribed."""
        if self.session and self.session.subscriptions:
            message = incoming(len(self.inc.messages), qos, size)
            self.inc.add(message)
            self.session.queue.append(message)
            if not self.client_knows:
                self._excuse()

    def _excuse(self):
        # Queued and in-flight messages need not arrive in two cases: the session is lost, or the client does not know
        # that it is new and takes messages under known ids for repetitions. MQTT has no remedy for the latter.
        if self.session:
            on_its_way = [message for message, _ in self.session.flight.values()] + self.session.queue
            self.inc.excused.update(number_of(message.topic, message.payload) for message in on_its_way)

    def disconnected(self, arrive=None):
        """The connection ends; `arrive` packets of the client still reach the server (None: all)."""
        self._end(arrive)
        self.out.disconnected()
        self.inc.disconnected()

    def power_cut(self, arrive, lost=False):
        """The client loses power; lost: changes that were not durable may be lost as well."""
        self._end(arrive)
        self.out.power_cut(lost)
        self.inc.power_cut()

    def interrupted(self):
        """The client's operation fails or is interrupted; it may have taken effect or not."""
        self.out.power_cut()
        self.inc.interrupted()

    def records_damaged(self, records):
        """The client found so many damaged records."""
        self.out.records_damaged(records)
        self.inc.damaged += records

    def _end(self, arrive):
        self.arrive(arrive)
        self.uplink = []
        if self.session is not self.server.sessions.get(NAME):
            self._excuse()  # a clean session ends with its connection
        self._connection = Connection(self.server)
        self.new = False

    # --- from the client ---

    def lost(self, raw):
        """The client wrote a packet, or its beginning, to a broken connection."""
        self._wrote()
        if raw[0] >> 4 == kinds.PUBLISH and raw[0] & 6:
            self.out.tried(number_of(*self._begun(raw)))

    def _begun(self, raw):
        # The topic of a PUBLISH of which the beginning is there, and that of its payload.
        at = 1
        while raw[at] & 0x80:
            at += 1
        n = int.from_bytes(raw[at + 1 : at + 3], "big")
        topic = raw[at + 3 : at + 3 + n].decode()
        at += 5 + n
        if self.level == 5:
            if not n:
                topic = self.aliases[int.from_bytes(raw[at + 2 : at + 4], "big")]
            at += 1 + raw[at]
        return topic, raw[at:]

    def written(self, raw, unread=False):
        """The client wrote a packet. unread: it has not read yet what the server sent last."""
        p = parse(raw, self.level)
        if p.kind == kinds.DISCONNECT and (EXPIRY, 0) in p.properties:
            self.out.session_refused()
            self.uplink.append(p)
            return
        self._wrote(unread)
        if p.kind == kinds.CONNECT:
            self.level = p.level
            self.aliases = {}
            # At level 5 Clean Start alone ends the old session, not the new one.
            self.out.connected(p.level == 3, not dict(p.properties).get(EXPIRY) if p.level == 5 else p.clean)
            self.uplink.append(p)
            return
        self.out.session_begun()
        if p.kind == kinds.PUBLISH:
            self._connection.resolve(p)
            self.aliases = self._connection.aliases.copy()
            number = number_of(p.topic, p.payload)
            self.out.publish_written(number, p)
            properties = [pair for pair in p.properties if pair[0] != ALIAS]
            if self.level == 5 and properties != (PROPERTIES if number in self.with_properties else []):
                raise Finding(OTHER, f"message {number} has the properties {p.properties}")
        elif p.kind == kinds.PUBREL:
            self.out.pubrel_written(p.mid)
        elif p.kind in (kinds.PUBACK, kinds.PUBREC, kinds.PUBCOMP):
            self.inc.answer_written(p.kind, p.mid)
        elif p.kind in (kinds.SUBSCRIBE, kinds.UNSUBSCRIBE):
            self.out.request_written(p.mid)
        if self.new and self.level > 3:
            self.client_knows = True  # it has read CONNACK
        self.uplink.append(p)

    def _wrote(self, unread=False):
        if not unread:
            self.out.handled()
        self.out.wrote()

    def arrive(self, n=None):
        """The next n packets of the client reach the server (None: all)."""
        for p in self.uplink[:n]:
            if p.kind == kinds.CONNECT:
                self._begin(p)
            if self._connection.packet_received(p):
                self.out.received.add(number_of(p.topic, p.payload))
        del self.uplink[:n]

    def _begin(self, p):
        if p.clean:
            self.lose_session()
        self.new = not self.session
        if self.new:
            self.client_knows = p.clean or not self.inc.messages

    # --- to the client ---

    def send_queued(self):
        while self._connection.send_queued():
            pass

    def redeliver(self, i):
        """Sends a message that the client has not acknowledged again."""
        session = self._connection.session
        mids = [mid for mid, (_, released) in session.flight.items() if not released] if session else []
        if mids:
            self._connection.redeliver(mids[i % len(mids)])

    def next(self, i=0):
        """Delivers the i-th waiting packet, or the first one with the same Message ID: those keep their order."""
        i %= len(self.answers)
        key = self.answers[i][:2]
        i = next(k for k in range(i + 1) if self.answers[k][:2] == key)
        raw = self.answers.pop(i)[2]
        self._deliver(raw)
        return raw

    def _deliver(self, raw):
        kind = raw[0] >> 4
        if kind == kinds.CONNACK:
            self.out.connack_read(self.level > 3 and not raw[2], self.window, self.level)
            return
        mid = int.from_bytes(raw[2:4], "big")
        self.out.packet_read(kind, mid)
        if kind == kinds.PUBLISH:
            p = parse(raw, self.level)
            self.inc.publish_read(number_of(p.topic, p.payload), p.mid)
        elif kind == kinds.PUBREL:
            self.inc.pubrel_read(mid)

    def judge(self):
        """Raises Finding if a message was lost or an exchange is incomplete; called when all have ended."""
        self.out.judge()
        self.inc.judge()
        left = self.session
        # Ids of a foreign session (their value is None) and of damaged records may stay in use.
        unreleased = left and not self.out.damaged and any(left.unreleased.values())
        if left and (unreleased or left.flight or left.queue):
            raise Finding(OTHER, f"incomplete exchanges: {left.unreleased} {left.flight} {left.queue}")
