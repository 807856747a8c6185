"""The other end: the reference server with one session, which judges what reaches it.

What the client wrote waits in `uplink` until the network lets it arrive. What the server would say waits in `answers`:
the script decides when each goes out, and in which order."""

import re

from dev.reference.kinds import CONNACK, CONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBSCRIBE, UNSUBSCRIBE
from dev.reference.oracle import OTHER, Finding, Incoming, JudgedSession, Outgoing
from dev.reference.server import Connection, Server, copied
from dev.reference.wire import parse
from host_tests.crash.messages import incoming, number_of

NAME = "dev"  # the client's


class Peer:
    def __init__(self):
        self.out = Outgoing()
        self.inc = Incoming()
        self.level = 4  # of the client's last CONNECT
        self.window = 1  # of the client
        self.server = Server(JudgedSession, 10)
        self.provoked = False  # the broker broke the rules: the client may end the connection
        self.new = False  # this connection began a new session,
        self.told = True  # and the client knows
        self.uplink = []  # packets, parsed
        self._connection = Connection(self.server)

    def copy(self):
        other = copied(self, "out", "inc", "server", "uplink")
        other._connection = self._connection.copy(other.server)
        return other

    @property
    def session(self):
        """What the server keeps for the client, None if that is nothing."""
        return self._connection.session or self.server.sessions.get(NAME)

    @property
    def answers(self):
        return self._connection.out

    # --- what befalls it ---

    def stranger(self, mids):
        """A session of the client's name, by another journal, with these ids in use and messages queued."""
        self.server.sessions[NAME] = JudgedSession()
        self.session.held = dict.fromkeys(mids)
        self.session.subscriptions["in/#"] = 2
        for mid in mids:
            self.give(1 + mid % 2, 20)

    def amnesia(self):
        """The session is lost, with all messages on their way to the client."""
        self._excuse()
        self.server.forget()

    def give(self, qos, size):
        """Somebody publishes to the client, which gets it if it has subscribed."""
        if self.session and self.session.subscriptions:
            message = incoming(len(self.inc.messages), qos, size)
            self.inc.give(message)
            self.session.queue.append(message)
            if not self.told:
                self._excuse()

    def _excuse(self):
        # What is on its way need not arrive: the session is lost, or the client could not learn that it is new, and its
        # old ids may swallow messages. MQTT has no remedy.
        if self.session:
            on_its_way = [message for message, _ in self.session.flight.values()] + self.session.queue
            self.inc.excused.update(number_of(message.topic, message.payload) for message in on_its_way)

    def disconnected(self, arrive=None):
        """The connection ends; of what the client wrote only so many packets still arrive (None: all)."""
        self._end(arrive)
        self.out.disconnected()
        self.inc.disconnected()

    def power_cut(self, arrive, lost=False):
        """The client is gone in the middle of something; lost: also what it had not made durable."""
        self._end(arrive)
        self.out.power_cut(lost)
        self.inc.power_cut()

    def stumble(self):
        """The client is interrupted in something, and lives on: it may have happened or not."""
        self.out.power_cut()
        self.inc.power_cut()

    def damaged(self, records):
        """So many records of the client were lost with flash that was spoilt."""
        self.out.spoil(records)
        self.inc.spoilt += records

    def _end(self, arrive):
        self.arrive(arrive)
        self.uplink = []
        if self.session is not self.server.sessions.get(NAME):
            self._excuse()  # a clean session ends with its connection
        self._connection = Connection(self.server)
        self.new = False

    # --- from the client ---

    def lost(self, raw):
        """The client wrote a packet, or its beginning, into a connection that is broken."""
        self._wrote()
        if raw[0] >> 4 == PUBLISH and raw[0] & 6:
            topic = re.search(rb"out/(all|\d+)", raw)
            self.out.tried(number_of(topic[0].decode(), raw[topic.end() + 2 :]))

    def written(self, raw):
        """The client wrote a packet."""
        self._wrote()
        p = parse(raw, self.level)
        if p.kind == CONNECT:
            self.level = p.level
            self.out.connected(p.level == 3, p.clean)
            self.uplink.append(p)
            return
        self.out.session_begun()
        if p.kind == PUBLISH:
            self.out.publish_written(number_of(p.topic, p.payload), p)
        elif p.kind == PUBREL:
            self.out.release_written(p.mid)
        elif p.kind in (PUBACK, PUBREC, PUBCOMP):
            self.inc.answer_written(p.kind, p.mid)
        elif p.kind in (SUBSCRIBE, UNSUBSCRIBE):
            self.out.ask_written(p.mid)
        if self.new and self.level > 3:
            self.told = True  # it has read our CONNACK
        self.uplink.append(p)

    def _wrote(self):
        self.out.handled()
        self.out.durable()

    def arrive(self, n=None):
        """So many packets of the client reach the broker, None: all."""
        for p in self.uplink[:n]:
            if p.kind == CONNECT:
                self._begin(p)
            if self._connection.packet_received(p):
                self.out.taken.add(number_of(p.topic, p.payload))
        del self.uplink[:n]

    def _begin(self, p):
        if p.clean:
            self.amnesia()
        self.new = not self.session
        if self.new:
            self.told = p.clean or not self.inc.messages

    # --- to the client ---

    def hand_out(self):
        """Messages that wait go on their way, as far as the window has room."""
        while self._connection.hand_out():
            pass

    def again(self, i):
        """A message that the client has not acknowledged goes out once more."""
        session = self._connection.session
        mids = [mid for mid, (_, released) in session.flight.items() if not released] if session else []
        if mids:
            self._connection.repeat(mids[i % len(mids)])

    def next(self, i=0):
        """The packet that the client gets next: the i-th that waits, but for one Message ID they keep their order."""
        i %= len(self.answers)
        key = self.answers[i][:2]
        i = next(k for k in range(i + 1) if self.answers[k][:2] == key)
        raw = self.answers.pop(i)[2]
        self._handed(raw)
        return raw

    def _handed(self, raw):
        kind = raw[0] >> 4
        if kind == CONNACK:
            self.out.connack_handed(self.level > 3 and not raw[2], self.window)
            return
        mid = int.from_bytes(raw[-2:], "big")
        self.out.handed(kind, mid)
        if kind == PUBLISH:
            p = parse(raw)
            self.inc.publish_handed(number_of(p.topic, p.payload), p.mid)
        elif kind == PUBREL:
            self.inc.release_handed(mid)

    def judge(self):
        """Everything is over."""
        self.out.judge()
        self.inc.judge()
        left = self.session
        held = (
            left and not self.out.spoilt and any(left.held.values())
        )  # a stranger's ids stay, and those of lost records
        if left and (held or left.flight or left.queue):
            raise Finding(OTHER, f"nobody completes {left.held} {left.flight} {left.queue}")
