"""What the client promised, and whether it keeps it: judged from calls that returned and from bytes on the wire.

Nothing here knows how the client works. Power may go in the middle of a call or of the handling of a packet; then both
outcomes are right, and the client shows later which one it was."""

from collections import namedtuple
from functools import cache

from broker import PUBACK, PUBCOMP, PUBREC

LOST, TWICE, REUSED, ORDER, OTHER = "lost", "duplicated", "ids reused", "out of order", "other"
KINDS = (LOST, TWICE, REUSED, ORDER, OTHER)


class Finding(AssertionError):
    """What must never happen has happened. `kind` is one of KINDS."""

    def __init__(self, kind, text):
        super().__init__(kind, text)
        self.kind = kind

    def __str__(self):
        return "%s: %s" % self.args


# phase: publish() was called; it returned; PUBREC was handled.
BEGUN, HELD, RELEASED = range(3)
# tried: whether the PUBLISH was ever sent, as far as the client can know.
NEVER, PERHAPS, SENT = range(3)
# unsure: power went while its acknowledgement was handled. fresh: no restart since publish().
Exchange = namedtuple("Exchange", "number qos mid phase unsure tried fresh")
Message = namedtuple("Message", "qos size retain")


SHARED = "out/all"  # topic of messages that tell their number in the payload


@cache
def payload(number, size):
    """What message `number` says; its number first, where there is room."""
    filling = bytes((number * 37 + i * 11 + (i >> 8)) & 0xFF for i in range(size))
    return number.to_bytes(4, "big") + filling[4:] if size > 3 else filling


def topic_of(number, size, retain):
    """Where the client publishes it: most messages go where the one before went."""
    return SHARED if size > 3 and not retain else f"out/{number}"


def number_of(topic, data):
    """The number of a message with this topic and (the beginning of) this payload."""
    return int.from_bytes(data[:4], "big") if topic == SHARED else int(topic.rpartition("/")[2])


class Outgoing:
    """The messages that the application published, by their numbers: 0, 1, ..."""

    def __init__(self):
        self.messages = {}
        self.accepted = set()
        self.taken = set()  # that the broker took over
        self.open = {}  # number: Exchange, for what is not completed
        self.may_go = set()  # what a full journal may have given up,
        self.gone = 0  # and how many it has at most
        self.here = []  # what this connection has seen, in its order
        self.acknowledging = None  # (kind, Message ID) of the packet that the client handles
        self.asking = 0  # Message ID of the SUBSCRIBE or UNSUBSCRIBE under way
        self.last_seq = -1

    def copy(self):
        other = Outgoing.__new__(Outgoing)
        other.__dict__.update(self.__dict__)
        for name in ("messages", "accepted", "taken", "open", "may_go", "here"):
            setattr(other, name, getattr(self, name).copy())
        return other

    # --- the application ---

    def begin(self, qos, size, retain):
        """publish() is called. Returns the message's number."""
        number = len(self.messages)
        self.messages[number] = Message(qos, size, retain)
        if qos:
            self.open[number] = Exchange(number, qos, 0, BEGUN, False, NEVER, True)
        return number

    def accept(self, number, mid, seq):
        """publish() returned this Message ID, and the journal gave this sequence number."""
        e = self.open[number]
        if e.mid not in (0, mid):
            raise Finding(REUSED, f"message {number} was sent as {e.mid}, and publish() returned {mid}")
        self._check_free(mid, number)
        if seq <= self.last_seq:
            raise Finding(OTHER, f"sequence number {seq} after {self.last_seq}")
        self.last_seq = seq
        self.accepted.add(number)
        self.open[number] = e._replace(mid=mid, phase=HELD)

    def refuse(self, number):
        """publish() refused the message, or a full journal dropped it."""
        self.open.pop(number, None)

    def let_go(self):
        """The full journal may give up what nobody has seen."""
        self.may_go |= {e.number for e in self.open.values() if e.tried == NEVER and e.phase == HELD}

    def _owner(self, mid):
        return next((e for e in self.open.values() if e.mid == mid), None)

    def owns(self, mid):
        return self._owner(mid) is not None

    def _check_free(self, mid, number):
        # [MQTT-2.3.1-2]
        for e in [e for e in self.open.values() if e.mid == mid and e.number != number]:
            if not e.unsure and e.number not in self.may_go:
                raise Finding(REUSED, f"Message ID {mid} for message {number} is in use for message {e.number}")
            del self.open[e.number]  # it was completed, then
        if mid == self.asking:
            raise Finding(REUSED, f"Message ID {mid} for message {number} is in use for a SUBSCRIBE")

    # --- the wire ---

    def connected(self):
        self.here = []

    def disconnected(self):
        self.acknowledging = None
        self.asking = 0

    def tried(self, number):
        """A PUBLISH went into a connection that is broken."""
        e = self.open.get(number)
        if e and e.tried == NEVER:
            self.open[number] = e._replace(tried=PERHAPS)

    def publish_written(self, p):
        """A PUBLISH left the client."""
        number = number_of(p.topic, p.payload)
        message = self.messages.get(number)
        if (p.qos, len(p.payload), p.retain) != message or p.payload != payload(number, message.size):
            raise Finding(OTHER, f"message {number} was spoilt: {p}")
        if p.qos:
            self._check_publish(number, p)
            self.open[number] = self.open[number]._replace(mid=p.mid, unsure=False, tried=SENT)

    def _check_publish(self, number, p):
        e = self.open.get(number)
        if not e:
            known = number in self.accepted
            raise Finding(TWICE, f"message {number} is sent though it was {'completed' if known else 'refused'}")
        if e.mid not in (0, p.mid):  # [MQTT-2.3.1-3]
            raise Finding(REUSED, f"message {number} had Message ID {e.mid}, now {p.mid}")
        if not e.mid:
            self._check_free(p.mid, number)
        if e.phase == RELEASED:
            raise Finding(TWICE, f"message {number} is sent though PUBREC had come")
        if e.tried == SENT and not p.dup:  # [MQTT-3.3.1-1]
            raise Finding(OTHER, f"message {number} is sent again without DUP")
        if e.tried == NEVER and e.fresh and p.dup:
            raise Finding(OTHER, f"message {number} has DUP at the first time")
        self._check_order(number)

    def _check_order(self, number):
        # [MQTT-4.4.0-1] [MQTT-4.6.0-1]: all that is owed, in the order of publish(), and nothing left out.
        if self.here and number <= self.here[-1]:
            raise Finding(ORDER, f"message {number} after {self.here[-1]}")
        for e in self.open.values():
            owed = e.number < number and e.phase == HELD and not e.unsure and e.number not in self.may_go
            if owed and e.number not in self.here:
                raise Finding(ORDER, f"message {number} overtakes {e.number}")
        self.here.append(number)

    def release_written(self, mid):
        """A PUBREL left the client."""
        e = self._owner(mid)
        if not e or e.tried == NEVER or e.qos == 1:
            return  # the id is freed before its first use at QoS 2
        if e.phase == HELD and not e.unsure:
            raise Finding(OTHER, f"PUBREL for message {e.number}, whose PUBREC has not come")
        self.open[e.number] = e._replace(phase=RELEASED, unsure=False)

    def ask_written(self, mid):
        """A SUBSCRIBE or UNSUBSCRIBE left the client."""
        self._check_free(mid, None)
        self.asking = mid

    def acknowledged(self):
        """The packet that came last has been handled."""
        if not self.acknowledging:
            return
        kind, mid = self.acknowledging
        self.acknowledging = None
        e = self._owner(mid)
        if not e:
            return
        if (kind, e.qos) == (PUBREC, 2):
            self.open[e.number] = e._replace(phase=RELEASED, unsure=False)
        elif (kind, e.qos) == (PUBACK, 1) or (kind, e.phase) == (PUBCOMP, RELEASED):
            del self.open[e.number]

    def power_cut(self):
        if self.acknowledging:
            e = self._owner(self.acknowledging[1])
            if e:
                self.open[e.number] = e._replace(unsure=True)
        for e in self.open.values():
            self.open[e.number] = e._replace(fresh=False)
        self.disconnected()

    def judge(self):
        """Everything is over."""
        lost = self.accepted - self.taken
        if len(lost) > self.gone or not lost <= self.may_go:
            raise Finding(LOST, f"messages {sorted(lost)} were accepted; {self.gone} may have been given up")


class Incoming:
    """The messages that the broker gave the client, by their numbers: 0, 1, ..."""

    def __init__(self):
        self.messages = {}  # number: (qos, size)
        self.excused = set()  # need not arrive: the broker has forgotten them
        self.attempts = {}  # number: how often the client was handed it
        self.heard = {}  # number: how often the application was
        self.done = set()  # answered: must not be heard again
        self.handing = None  # number of the message that the client is being handed
        self.ended = False  # the application has had all of it
        self._at = 0

    def copy(self):
        other = Incoming.__new__(Incoming)
        other.__dict__.update(self.__dict__)
        for name in ("messages", "excused", "attempts", "heard", "done"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def give(self, qos, size):
        number = len(self.messages)
        self.messages[number] = (qos, size)
        return number

    def hand(self, number):
        """The broker's PUBLISH reaches the client."""
        self.attempts[number] = self.attempts.get(number, 0) + 1
        self.handing, self.ended = number, False

    def hear(self, number, offset, data, redelivered):
        """The application gets a piece of it."""
        qos, size = self.messages[number]
        if number != self.handing or payload(number, size)[offset : offset + len(data)] != data:
            raise Finding(OTHER, f"the application got something else than message {self.handing}")
        if not offset:
            self._begin(number, qos, redelivered)
            self._at = 0
        if offset != self._at:
            raise Finding(OTHER, f"piece at {offset} of message {number}, not at {self._at}")
        self._at += len(data)
        self.ended = self._at == size

    def _begin(self, number, qos, redelivered):
        again = self.heard.get(number, 0)
        self.heard[number] = again + 1
        if qos != 2:
            return
        if number in self.done:
            raise Finding(TWICE, f"the application gets message {number} again")
        if again and not redelivered:
            raise Finding(TWICE, f"the application gets message {number} again, and is not told so")
        if redelivered and self.attempts[number] < 2 and number not in self.excused:
            raise Finding(OTHER, f"message {number} comes as a repetition, and is none")

    def answered(self):
        """PUBACK or PUBREC left the client for what it was handed."""
        self.done.add(self.handing)
        self.handing = None

    def disconnected(self):
        if self.handing is not None and self.ended:
            self.done.add(self.handing)
        self.handing = None

    def power_cut(self):
        self.handing = None

    def judge(self):
        owed = {number for number, (qos, _) in self.messages.items() if qos} - self.excused
        lost = owed - (set(self.heard) & self.done)
        if lost:
            raise Finding(LOST, f"the application never got messages {sorted(lost)}")
