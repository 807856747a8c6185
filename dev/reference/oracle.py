"""What became of messages, judged from calls that returned, from packets and from what was delivered, without knowing
how the client works. Power may go in the middle of a call or of the handling of a packet; then both outcomes are right,
and the client shows later which one it was. Runs on MicroPython."""

from collections import namedtuple

from .kinds import CONNACK, PUBACK, PUBCOMP, PUBREC, PUBREL, SUBACK, UNSUBACK
from .server import Session, copied
from .wire import Violation

LOST, TWICE, REUSED, ORDER, OTHER = "lost", "duplicated", "ids reused", "out of order", "other"
KINDS = (LOST, TWICE, REUSED, ORDER, OTHER)

_LATEST = 200  # ids that a judged session remembers: more than any client has in flight


class Finding(Violation):
    """What must never happen has happened. `kind` is one of KINDS."""

    def __init__(self, kind, text):
        super().__init__(kind, text)
        self.kind = kind

    def __str__(self):
        return "%s: %s" % self.args


class JudgedSession(Session):
    """A session that judges its client by what arrives."""

    def __init__(self):
        super().__init__()
        self.seen = {}  # Message ID: (what was published under it last, whether that was released), of the latest ids

    def copy(self):
        other = super().copy()
        other.seen = self.seen.copy()
        return other

    def publish_arrived(self, p):
        if p.qos:
            self._check(p, (p.topic, p.payload))
        return super().publish_arrived(p)

    def _check(self, p, body):
        before, released = self.seen.get(p.mid, (None, False))
        if before == body and released:
            raise Finding(TWICE, "%r after its PUBREL" % p)
        if before == body and not p.dup:  # [MQTT-3.3.1-1]
            raise Finding(OTHER, "%r was sent before: DUP is missing" % p)
        # [MQTT-2.3.1-2] An id that another journal left in use, for a message unknown, swallows QoS 2 alone.
        if before != body and p.mid in self.held and (before or p.qos == 2):
            raise Finding(LOST, "%r comes under the id of %r" % (p, before))
        self.seen[p.mid] = body, False
        if len(self.seen) > _LATEST:
            del self.seen[next(iter(self.seen))]

    def release_arrived(self, p):
        if p.mid in self.held:
            self.seen[p.mid] = self.held[p.mid], True
        super().release_arrived(p)

    def ack_arrived(self, p):
        message, released = self.flight.get(p.mid, (None, False))
        wanted = (PUBACK,) if message and message.qos == 1 else (PUBREC, PUBCOMP) if released else (PUBREC,)
        if message and p.kind not in wanted:
            raise Finding(OTHER, "%r for %r, released: %s" % (p, message, released))
        super().ack_arrived(p)


# --- messages of the client ---

# What the client's journal may say of its session with the server: it goes on; a clean session was asked for, which
# would end it; it is a clean one; it was lost.
PERSISTENT, ENDING, CLEAN, UNSURE = range(4)
# phase: publish() was called; it returned; PUBREC was handled.
BEGUN, HELD, RELEASED = range(3)
# tried: whether the PUBLISH was ever sent, as far as the client can know.
NEVER, PERHAPS, SENT = range(3)
# unsure: power went while its acknowledgement was handled. fresh: no restart since publish(). orphaned: the server had
# lost the session when the client last connected, and with it the exchange.
_FIELDS = ("number", "qos", "mid", "phase", "unsure", "tried", "fresh", "orphaned")
Exchange = namedtuple("Exchange", _FIELDS)


class Outgoing:
    """The messages that the application published, by their numbers: 0, 1, ..."""

    def __init__(self):
        self.messages = {}  # number: server.Message
        self.accepted = set()
        self.taken = set()  # that the server took over
        self.open = {}  # number: Exchange, for what is not completed
        self.may_go = set()  # what a full journal may have given up,
        self.gone = 0  # and how many it has at most
        self.rotten = set()  # what may have been lost with records that flash spoilt,
        self.spoilt = 0  # and how many of these were counted
        self.ended = set()  # what was given up, or may have been, with a session that ended
        self.doubtful = set()  # what the client cannot know never to have left: it may have been about to send it
        self.window = 0  # the largest one of a life with a connection,
        self.reach = 0  # which can have sent messages of a lower number
        self.modes = (PERSISTENT,)  # what the journal may say
        self.connected()
        self.acknowledging = None  # (kind, Message ID) of the packet that the client handles; CONNACK, all given up
        self.noted = ()  # exchanges as they were before acknowledgements that need not be durable yet
        self.asking = 0  # Message ID of the SUBSCRIBE or UNSUBSCRIBE under way
        self.last_seq = -1

    def copy(self):
        return copied(self, "messages", "accepted", "taken", "open", "may_go", "rotten", "ended", "doubtful")

    def _set(self, e, **new):
        self.open[e.number] = Exchange(*[new.get(name, old) for name, old in zip(_FIELDS, e)])

    # --- the application ---

    def begin(self, message, online=False):
        """publish() is called with a server.Message; `online`: with a connection. Returns the message's number."""
        number = len(self.messages)
        if online:
            self.reach = number + 1
        self.messages[number] = message
        if message.qos:
            self.open[number] = Exchange(number, message.qos, 0, BEGUN, False, NEVER, True, False)
        return number

    def accept(self, number, mid, seq):
        """publish() returned this Message ID, and the journal gave this sequence number."""
        e = self.open[number]
        if e.mid not in (0, mid):
            raise Finding(REUSED, "message %d was sent as %d, and publish() returned %d" % (number, e.mid, mid))
        self._check_free(mid, number)
        self.durable()
        if seq <= self.last_seq:
            raise Finding(OTHER, "sequence number %d after %d" % (seq, self.last_seq))
        self.last_seq = seq
        self.accepted.add(number)
        self._set(e, mid=mid, phase=HELD)

    def refuse(self, number):
        """publish() refused the message, or a full journal dropped it."""
        self.open.pop(number, None)

    def let_go(self):
        """The full journal may give up what nobody has seen."""
        for e in self.open.values():
            if e.tried == NEVER and e.phase == HELD:
                self.may_go.add(e.number)

    def owner(self, mid):
        """The Exchange that uses this Message ID, None if none does."""
        for e in self.open.values():
            if e.mid == mid:
                return e
        return None

    def _may_be_gone(self, e):
        return e.unsure or e.number in self.may_go or e.number in self.ended

    def _check_free(self, mid, number):
        # [MQTT-2.3.1-2]
        for e in [e for e in self.open.values() if e.mid == mid and e.number != number]:
            if not self._may_be_gone(e):
                raise Finding(REUSED, "Message ID %d for message %s is in use for %d" % (mid, number, e.number))
            del self.open[e.number]  # it was completed, then
        if mid == self.asking:
            raise Finding(REUSED, "Message ID %d for message %s is in use for a SUBSCRIBE" % (mid, number))

    # --- what the client writes ---

    def will_ask_clean(self):
        """The client will ask for clean sessions: its journal says so before a CONNECT leaves."""
        if PERSISTENT in self.modes:
            self.modes = tuple(set(self.modes) | {ENDING})

    def connected(self, repeats=False, clean=False):
        """A CONNECT left the client. `repeats`: it may say all again when nothing was answered for long."""
        self.repeats = repeats
        self.clean = clean
        if clean:
            self.modes = tuple({ENDING if mode == PERSISTENT else mode for mode in self.modes})
        # Each is replaced when it grows, and so needs no copy.
        self.sent = ()  # numbers whose PUBLISH left on this connection,
        self.here = ()  # in its order, since the client last began to repeat them
        self.releasing = ()  # numbers whose PUBREL left on this connection
        self.foreign = ()  # Message IDs whose PUBREC answers no PUBLISH of this connection

    def tried(self, number):
        """A PUBLISH went into a connection that is broken."""
        e = self.open.get(number)
        if e and e.tried == NEVER:
            self._set(e, tried=PERHAPS)

    def publish_written(self, number, p):
        """A PUBLISH left the client, of the message with this number."""
        if (p.topic, p.payload, p.qos, p.retain) != self.messages.get(number):
            raise Finding(OTHER, "message %s was spoilt: %r" % (number, p))
        if p.qos:
            self._check_publish(number, p)
            self._set(self.open[number], mid=p.mid, unsure=False, tried=SENT)
            self.ended.discard(number)
            self.sent += (number,)

    def _check_publish(self, number, p):
        e = self.open.get(number)
        if not e:
            known = "completed" if number in self.accepted else "refused"
            raise Finding(TWICE, "message %d is sent though it was %s" % (number, known))
        if e.mid not in (0, p.mid):  # [MQTT-2.3.1-3]
            raise Finding(REUSED, "message %d had Message ID %d, now %d" % (number, e.mid, p.mid))
        if not e.mid:
            self._check_free(p.mid, number)
        if e.phase == RELEASED:
            raise Finding(TWICE, "message %d is sent though PUBREC had come" % number)
        if e.tried == SENT and not p.dup:  # [MQTT-3.3.1-1]
            raise Finding(OTHER, "message %d is sent again without DUP" % number)
        if e.tried == NEVER and e.fresh and p.dup:
            raise Finding(OTHER, "message %d has DUP at the first time" % number)
        if self.repeats and number in self.here:
            self.here = ()
        self._check_order(number)

    def _check_order(self, number):
        # [MQTT-4.4.0-1] [MQTT-4.6.0-1]: all that is owed, in the order of publish(), and nothing left out.
        if self.here and number <= self.here[-1]:
            raise Finding(ORDER, "message %d after %d" % (number, self.here[-1]))
        for e in self.open.values():
            owed = e.number < number and e.phase == HELD and not self._may_be_gone(e)
            owed = owed and e.number not in self.rotten  # but the Message ID of such a one must not come again
            if owed and e.number not in self.here:
                raise Finding(ORDER, "message %d overtakes %d" % (number, e.number))
        self.here += (number,)

    def release_written(self, mid):
        """A PUBREL left the client."""
        e = self.owner(mid)
        if not e or e.qos == 1 or e.tried == NEVER or mid in self.foreign:
            return  # it frees the id, which another journal may have left in use
        if e.phase == HELD and not e.unsure:
            raise Finding(OTHER, "PUBREL for message %d, whose PUBREC has not come" % e.number)
        self._set(e, phase=RELEASED, unsure=False)
        self.releasing += (e.number,)

    def ask_written(self, mid):
        """A SUBSCRIBE or UNSUBSCRIBE left the client."""
        self._check_free(mid, None)
        self.asking = mid

    # --- what it reads ---

    def handed(self, kind, mid):
        """The client gets a packet of the server: what came before has been handled."""
        self.handled()
        if PUBACK <= kind <= PUBCOMP and kind != PUBREL:
            self.acknowledging = (kind, mid)
        elif kind in (SUBACK, UNSUBACK):
            self.asking = 0

    def handled(self):
        """The client is through with what it got last."""
        if self.acknowledging:
            kind, mid = self.acknowledging
            self.acknowledging = None
            self._acknowledged(kind, mid, self.owner(mid))

    def _acknowledged(self, kind, mid, e):
        if kind == CONNACK:
            self._begin_session(mid)
        elif kind == PUBREC and (not e or e.number not in self.sent):
            self.foreign += (mid,)
        elif kind == PUBREC and e.qos == 2:
            self.noted += (e,)
            self._set(e, phase=RELEASED, unsure=False)
        elif e and (
            (kind == PUBACK and e.qos == 1 and e.number in self.sent)
            or (kind == PUBCOMP and e.number in self.releasing)
        ):
            self.noted += (e,)
            del self.open[e.number]

    def durable(self):
        """All that the client handled must be durable: it wrote a packet, was idle, disconnected, or has mounted."""
        self.noted = ()

    def connack_handed(self, none, window):
        """The client gets a CONNACK that accepts it, with such a window of its own. `none`: it says that the server
        has no session."""
        self.handled()
        over = [mode == CLEAN or (mode != UNSURE and self.clean) or (mode == ENDING and none) for mode in self.modes]
        self.acknowledging = (CONNACK, all(over))
        if any(over):
            self.ended.update(e.number for e in self.open.values() if e.tried != NEVER or e.number in self.doubtful)
        self.window = max(self.window, window)
        self.reach = len(self.messages)

    def _begin_session(self, over):
        # What the CONNACK said has been handled, and noted perhaps.
        for e in [e for e in self.open.values() if over and e.tried != NEVER]:
            self.noted += (e,)
            del self.open[e.number]
        self.modes = tuple(set(self.modes) | {CLEAN if self.clean else PERSISTENT})

    def session_begun(self):
        """The client wrote a packet behind its CONNECT: what CONNACK told is durable."""
        self.modes = (CLEAN if self.clean else PERSISTENT,)

    def session_lost(self):
        """A CONNACK tells the client that the server has no session: PUBREL goes out once more, and the next
        connection ends the exchange if nothing answers."""
        for e in list(self.open.values()):
            if e.orphaned:
                del self.open[e.number]
            elif e.phase == RELEASED:
                self._set(e, orphaned=True)

    # --- the end of it ---

    def spoil(self, records):
        """So many records of the journal were damaged, says the client."""
        self.spoilt += records
        if records:
            self.rotten.update(self.open)
            self.modes = tuple(set(self.modes) | {UNSURE})

    def disconnected(self):
        self.acknowledging = None
        self.asking = 0

    def power_cut(self, lost=False):
        """lost: perhaps also what had been noted and was not durable."""
        for e in self.noted if lost else ():
            self._set(e, unsure=True)
        kind, mid = self.acknowledging or (0, 0)
        for e in list(self.open.values()):
            if e.number in self.ended if kind == CONNACK else kind and e.mid == mid:
                self._set(e, unsure=True)
        if kind == CONNACK:
            self.modes = tuple(set(self.modes) | {CLEAN if self.clean else PERSISTENT})
        places = self.window
        for e in self.open.values():
            if places and e.number < self.reach:
                self.doubtful.add(e.number)
                places -= e.phase != BEGUN and not self._may_be_gone(e)
        for e in list(self.open.values()):
            self._set(e, fresh=False, orphaned=False)
        self.disconnected()

    def judge(self):
        """Everything is over."""
        lost = self.accepted - self.taken - self.ended
        may_be = self.gone + self.spoilt
        if len(lost) > may_be or not lost <= self.may_go | self.rotten:
            raise Finding(LOST, "messages %s were accepted; %d may have been given up" % (sorted(lost), may_be))


# --- messages to the client ---


class Incoming:
    """The messages that the server gave the client, by their numbers: 0, 1, ..."""

    def __init__(self):
        self.messages = {}  # number: server.Message
        self.excused = set()  # need not arrive: the server has forgotten them
        self.attempts = {}  # number: how often the client was handed it
        self.heard = {}  # number: how often the application was
        self.done = set()  # answered: must not be heard again
        self.owed = ()  # (kind, Message ID): what the client has to answer, in this order; replaced when it changes
        self.handing = None  # number of the message that the client is being handed
        self.ended = False  # the application has had all of it
        self.spoilt = 0  # damaged records of the journal: so often the client may not know that it had a message
        self._at = 0

    def copy(self):
        return copied(self, "messages", "excused", "attempts", "heard", "done")

    def give(self, message):
        number = len(self.messages)
        self.messages[number] = message
        return number

    def publish_handed(self, number, mid):
        """The server's PUBLISH reaches the client."""
        qos = self.messages[number].qos
        if qos:
            self.owed += ((PUBACK if qos == 1 else PUBREC, mid),)
        self.attempts[number] = self.attempts.get(number, 0) + 1
        self.handing, self.ended = number, False

    def release_handed(self, mid):
        """The server's PUBREL reaches the client."""
        self.owed += ((PUBCOMP, mid),)

    def answer_written(self, kind, mid):
        """A PUBACK, PUBREC or PUBCOMP left the client."""
        # [MQTT-4.6.0-2] [MQTT-4.6.0-3]
        if self.owed[:1] != ((kind, mid),):
            raise Finding(OTHER, "type %d for Message ID %d answers nothing, or out of turn" % (kind, mid))
        self.owed = self.owed[1:]
        if kind != PUBCOMP and self.handing is not None:
            self.done.add(self.handing)
            self.handing = None

    def hear(self, number, offset, data, redelivered):
        """The application gets a piece of it."""
        payload = self.messages[number].payload
        if number != self.handing or payload[offset : offset + len(data)] != data:
            raise Finding(OTHER, "the application got something else than message %s" % self.handing)
        if not offset:
            self._begin(number, redelivered)
            self._at = 0
        if offset != self._at:
            raise Finding(OTHER, "piece at %d of message %d, not at %d" % (offset, number, self._at))
        self._at += len(data)
        self.ended = self._at == len(payload)

    def _begin(self, number, redelivered):
        again = self.heard.get(number, 0)
        self.heard[number] = again + 1
        if self.messages[number].qos != 2:
            return
        if self.spoilt and (number in self.done or (again and not redelivered)):
            self.spoilt -= 1
            return
        if number in self.done:
            raise Finding(TWICE, "the application gets message %d again" % number)
        if again and not redelivered:
            raise Finding(TWICE, "the application gets message %d again, and is not told so" % number)
        if redelivered and self.attempts[number] < 2 and number not in self.excused:
            raise Finding(OTHER, "message %d comes as a repetition, and is none" % number)

    def disconnected(self):
        if self.handing is not None and self.ended:
            self.done.add(self.handing)
        self.power_cut()

    def power_cut(self):
        self.handing = None
        self.owed = ()

    def judge(self):
        """Everything is over."""
        owed = {number for number, message in self.messages.items() if message.qos} - self.excused
        lost = owed - (set(self.heard) & self.done)
        if lost:
            raise Finding(LOST, "the application never got messages %s" % sorted(lost))


# --- what came of all of them ---


class Tally:
    """Which of the numbers 1, 2, 3... came, a byte for each; `repeated`: how many came again."""

    def __init__(self, numbers=()):
        self.repeated = 0
        self._came = bytearray()
        for number in numbers:
            self.add(number)

    def add(self, number):
        if number > len(self._came):
            self._came.extend(bytes(number - len(self._came)))
        self.repeated += self._came[number - 1]
        self._came[number - 1] = 1

    def missing(self, accepted):
        """How many of 1 to `accepted` did not come."""
        return accepted - sum(self._came[:accepted])


def judge(accepted, delivered):
    """(lost, twice, repeated): keys that were not delivered; of QoS 2 and delivered again, which never may be; of QoS 1
    and delivered again. `accepted`: {key: QoS}; `delivered`: {key: times}."""
    lost = [key for key in accepted if not delivered.get(key)]
    again = [key for key in accepted if delivered.get(key, 0) > 1]
    return lost, [key for key in again if accepted[key] == 2], [key for key in again if accepted[key] == 1]
