"""The other end: a broker with one session, written from the standard, that judges what reaches it.

What the client wrote waits in `uplink` until the network lets it arrive. What the broker would say waits in `answers`:
the script decides when each goes out, and in which order."""

import re

from broker import (
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBSCRIBE,
    UNSUBSCRIBE,
    connack,
    parse,
    pingresp,
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
    suback,
    unsuback,
)
from promises import LOST, OTHER, TWICE, Finding, Incoming, Outgoing, number_of, payload

OURS, THEIRS, NEITHER = range(3)  # whose Message ID an answer bears


class Peer:
    def __init__(self, level=4):
        self.out = Outgoing()
        self.inc = Incoming()
        self.level = level
        self.limit = 10  # messages in flight towards the client
        self.provoked = False  # the broker broke the rules: the client may end the connection
        self.session = False
        self.new = False  # this connection began a new session,
        self.told = True  # and the client knows
        self.uplink = []  # packets, parsed
        self.answers = []  # (whose id, id, packet)
        self.owed = []  # (kind, id): what the client has to answer, in this order
        self._forget()

    def _forget(self):
        self.held = {}  # ids of the client's QoS 2 messages that await their PUBREL, and their numbers
        self.taken = set()  # QoS 2 messages that this session took over
        self.flight = {}  # id: (number, released) of messages towards the client
        self.queue = []  # numbers of those that wait
        self.filters = {}
        self._mid = 0

    def copy(self):
        other = Peer.__new__(Peer)
        other.__dict__.update(self.__dict__)
        other.out, other.inc = self.out.copy(), self.inc.copy()
        for name in ("uplink", "answers", "owed", "held", "taken", "flight", "queue", "filters"):
            setattr(other, name, getattr(self, name).copy())
        return other

    # --- what befalls it ---

    def stranger(self, mids):
        """A session of the client's name, by another journal, with these ids in use and messages queued."""
        self.session = True
        self.held = dict.fromkeys(mids, -1)
        self.filters = {"in/#": 2}
        for mid in mids:
            self.give(1 + mid % 2, 20)

    def amnesia(self):
        """The session is lost, with all messages on their way to the client."""
        self.session = False
        self.inc.excused |= {number for number, _ in self.flight.values()} | set(self.queue)
        self._forget()

    def give(self, qos, size):
        """Somebody publishes to the client, which gets it if it has subscribed."""
        if self.session and self.filters:
            self.queue.append(self.inc.give(qos, size))
            if not self.told:
                self._excuse()

    def _excuse(self):
        # The client could not learn that the session is new: its old ids may swallow messages. MQTT has no remedy.
        self.inc.excused |= {number for number, _ in self.flight.values()} | set(self.queue)

    def disconnected(self, arrive=None):
        """The connection ends; of what the client wrote only so many packets still arrive (None: all)."""
        self._end(arrive)
        self.out.disconnected()
        self.inc.disconnected()

    def power_cut(self, arrive):
        """The client is gone in the middle of something."""
        self._end(arrive)
        self.out.power_cut()
        self.inc.power_cut()

    def _end(self, arrive):
        self.arrive(arrive)
        self.uplink, self.answers, self.owed = [], [], []
        self.new = False

    # --- from the client ---

    def lost(self, raw):
        """The client wrote a packet, or its beginning, into a connection that is broken."""
        self.out.acknowledged()
        if raw[0] >> 4 == PUBLISH and raw[0] & 6:
            topic = re.search(rb"out/(all|\d+)", raw)
            self.out.tried(number_of(topic[0].decode(), raw[topic.end() + 2 :]))

    def written(self, raw):
        """The client wrote a packet."""
        self.out.acknowledged()
        p = parse(raw, self.level)
        if p.kind == CONNECT:
            self.out.connected()
        elif p.kind == PUBLISH:
            self.out.publish_written(p)
        elif p.kind == PUBREL:
            self.out.release_written(p.mid)
        elif p.kind in (PUBACK, PUBREC, PUBCOMP):
            self._check_answer(p)
        elif p.kind in (SUBSCRIBE, UNSUBSCRIBE):
            self.out.ask_written(p.mid)
        if p.kind != CONNECT and self.new and self.level > 3:
            self.told = True  # it has read our CONNACK
        self.uplink.append(p)

    def _check_answer(self, p):
        # [MQTT-4.6.0-2] [MQTT-4.6.0-3]
        if not self.owed or self.owed.pop(0) != (p.kind, p.mid):
            raise Finding(OTHER, f"{p!r} answers nothing, or out of turn")
        if p.kind != PUBCOMP and self.inc.handing is not None:
            self.inc.answered()

    def arrive(self, n=None):
        """So many packets of the client reach the broker, None: all."""
        for p in self.uplink[:n]:
            self._take(p)
        del self.uplink[:n]

    def _take(self, p):
        if p.kind == CONNECT:
            self._connect(p)
        elif p.kind == PUBLISH:
            self._publish(p)
        elif p.kind == PUBREL:
            self.held.pop(p.mid, None)
            self._answer(OURS, p.mid, pubcomp(p.mid))
        elif p.kind in (PUBACK, PUBREC, PUBCOMP):
            self._acknowledged(p)
        elif p.kind == SUBSCRIBE:
            self.filters.update(p.filters)
            self._answer(OURS, p.mid, suback(p.mid, *(qos for _, qos in p.filters)))
        elif p.kind == UNSUBSCRIBE:
            for name, _ in p.filters:
                self.filters.pop(name, None)
            self._answer(OURS, p.mid, unsuback(p.mid))
        elif p.kind == PINGREQ:
            self._answer(NEITHER, 0, pingresp())
        elif p.kind != DISCONNECT:
            raise Finding(OTHER, f"{p!r} is no client's")

    def _answer(self, whose, mid, raw):
        self.answers.append((whose, mid, raw))

    def _connect(self, p):
        if p.clean:
            self.amnesia()
        elif not self.session:
            self._forget()
        self._answer(NEITHER, 0, connack(int(self.session and self.level > 3)))
        self.new = not self.session
        if self.new:
            self.told = p.clean or not self.inc.messages
        self.session = not p.clean
        for mid, (number, released) in self.flight.items():
            self._answer(THEIRS, mid, pubrel(mid) if released else self._packet(mid, number, 1))

    def _packet(self, mid, number, dup):
        qos, size = self.inc.messages[number]
        return publish(f"in/{number}", payload(number, size), qos, mid, dup)

    def _publish(self, p):
        number = number_of(p.topic, p.payload)
        if p.qos == 2:
            if self.held.get(p.mid, number) != number:
                raise Finding(LOST, f"message {number} comes under the id of {self.held[p.mid]}, {p.mid}")
            if number in self.taken and p.mid not in self.held:
                raise Finding(TWICE, f"message {number} was taken twice")
            self.held[p.mid] = number
            self.taken.add(number)
        self.out.taken.add(number)
        if p.qos:
            self._answer(OURS, p.mid, pubrec(p.mid) if p.qos == 2 else puback(p.mid))

    def _acknowledged(self, p):
        number, released = self.flight.get(p.mid, (None, False))
        if number is None:
            return
        if p.kind == PUBREC:
            self.flight[p.mid] = (number, True)
            self._answer(THEIRS, p.mid, pubrel(p.mid))
        elif self.inc.messages[number][0] == 1 or p.kind == PUBCOMP:
            del self.flight[p.mid]

    # --- to the client ---

    def hand_out(self):
        """Messages that wait go on their way, as far as the window has room."""
        while self.queue and len(self.flight) < self.limit:
            number = self.queue.pop(0)
            if not self.inc.messages[number][0]:
                self._answer(NEITHER, 0, self._packet(0, number, 0))
                continue
            self._mid += 1
            self.flight[self._mid] = (number, False)
            self._answer(THEIRS, self._mid, self._packet(self._mid, number, 0))

    def again(self, i):
        """A message that the client has not acknowledged goes out once more."""
        rows = [(mid, number) for mid, (number, released) in self.flight.items() if not released]
        if rows:
            mid, number = rows[i % len(rows)]
            self._answer(THEIRS, mid, self._packet(mid, number, 1))

    def next(self, i=0):
        """The packet that the client gets next: the i-th that waits, but for one Message ID they keep their order."""
        i %= len(self.answers)
        key = self.answers[i][:2]
        i = next(k for k in range(i + 1) if self.answers[k][:2] == key)
        raw = self.answers.pop(i)[2]
        self._handed(raw)
        return raw

    def _handed(self, raw):
        self.out.acknowledged()  # what came before has been handled
        kind = raw[0] >> 4
        mid = int.from_bytes(raw[-2:], "big")
        if kind == PUBLISH:
            self._handed_publish(raw)
        elif kind == PUBREL:
            self.owed.append((PUBCOMP, mid))
        elif kind in (PUBACK, PUBREC, PUBCOMP):
            self.out.acknowledging = (kind, mid)
        elif kind != 2:
            self.out.asking = 0

    def _handed_publish(self, raw):
        p = parse(raw)
        if p.qos:
            self.owed.append((PUBACK if p.qos == 1 else PUBREC, p.mid))
        self.inc.hand(int(p.topic.rpartition("/")[2]))

    def judge(self):
        """Everything is over."""
        self.out.judge()
        self.inc.judge()
        if any(number >= 0 for number in self.held.values()) or self.flight or self.queue:
            raise Finding(OTHER, f"nobody completes {self.held} {self.flight} {self.queue}")
