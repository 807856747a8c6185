"""Checks a client's message exchanges from the outside: from its API calls, its packets and its deliveries. If power is
cut during a call or while a packet is handled, both outcomes are correct, and later packets show which one it was. Runs
on MicroPython."""

from collections import namedtuple

from tools.reference.kinds import CONNACK, PUBACK, PUBCOMP, PUBREC, PUBREL, SUBACK, UNSUBACK
from tools.reference.server import Copyable, Session
from tools.reference.wire import Violation

LOST, TWICE, REUSED, ORDER, OTHER = "lost", "duplicated", "ids reused", "out of order", "other"
KINDS = (LOST, TWICE, REUSED, ORDER, OTHER)

_LATEST = 200  # Message IDs that a JudgedSession remembers: more than any client has in flight


class Finding(Violation):
    """The client broke a promise. `kind` is one of KINDS."""

    def __init__(self, kind, text):
        super().__init__(kind, text)
        self.kind = kind

    def __str__(self):
        return "%s: %s" % self.args


class JudgedSession(Session):
    """A session that checks each packet of its client."""

    def __init__(self):
        super().__init__()
        self.seen = {}  # Message ID: (its last (topic, payload), whether that was released), for the latest ids

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
        # [MQTT-2.3.1-2] If another journal left this id in use (before is None), only a QoS 2 message would be lost.
        if before != body and p.mid in self.unreleased and (before or p.qos == 2):
            raise Finding(LOST, "%r reuses the Message ID of %r" % (p, before))
        self.seen[p.mid] = body, False
        if len(self.seen) > _LATEST:
            del self.seen[next(iter(self.seen))]

    def pubrel_arrived(self, p):
        if p.mid in self.unreleased:
            self.seen[p.mid] = self.unreleased[p.mid], True
        super().pubrel_arrived(p)

    def ack_arrived(self, p):
        message, released = self.flight.get(p.mid, (None, False))
        wanted = (PUBACK,) if message and message.qos == 1 else (PUBREC, PUBCOMP) if released else (PUBREC,)
        if message and p.kind not in wanted:
            raise Finding(OTHER, "%r for %r, released: %s" % (p, message, released))
        super().ack_arrived(p)


# --- messages from the client to the server ---

# What the client's journal may record about its session with the server: PERSISTENT: it continues. ENDING: a clean
# session was requested, which would end it. CLEAN: it is a clean session. UNSURE: the record was damaged.
PERSISTENT, ENDING, CLEAN, UNSURE = range(4)
# phase: publish() was called; it returned; PUBREC was handled.
BEGUN, ACCEPTED, RELEASED = range(3)
# tried: whether the PUBLISH was ever sent, as far as the client can know.
NEVER, PERHAPS, SENT = range(3)
# unsure: power was cut while its acknowledgement was handled. fresh: no restart since publish(). orphaned: the server
# had no session when the client last connected, so it does not know the exchange.
_FIELDS = ("number", "qos", "mid", "phase", "unsure", "tried", "fresh", "orphaned")
Exchange = namedtuple("Exchange", _FIELDS)


class Outgoing(Copyable):
    """The messages that the application published, numbered 0, 1, ..."""

    def __init__(self):
        self.messages = {}  # number: server.Message
        self.accepted = set()
        self.received = set()  # the server has them
        self.open = {}  # number: Exchange, until it is completed
        self.may_be_dropped = set()  # a full journal may have dropped these
        self.lapsed = set()  # sent in sessions that the server has lost, and not since
        self.dropped = 0  # how many it dropped, by the client's count
        self.maybe_damaged = set()  # messages whose journal records may be damaged
        self.damaged = 0  # damaged records, by the client's count
        self.given_up = set()  # discarded, or perhaps discarded, when a session ended or the application asked for it
        self.discarded = set()  # for certain, as the application asked for it
        self.aside = set()  # set aside: others overtake them, also after a restart
        self.may_be_aside = set()  # each was the oldest one when a connection ended
        self.may_be_any = False  # damage may look like the mark of a message that is set aside, or hide it
        self.maybe_sent = set()  # after a restart the client cannot know that these were never sent
        self.max_inflight = 0  # the largest of all runs of the client that had a connection, with what was set aside
        self.sendable_below = 0  # these runs can only have sent messages below this number
        self.modes = (PERSISTENT,)  # what the journal may record
        self.connected()
        # (kind, Message ID) of the packet being handled; (CONNACK, (whether all are given up, for each of `modes`,
        # whether they begin anew, whether session_lost() follows, how many more were sent than a window takes))
        self.acknowledging = None
        self.not_durable = ()  # exchanges as they were before acknowledgements that need not be durable yet
        self.done_waiting = 0  # so many of these need not before a packet leaves, if they completed their exchange
        self.request_mid = 0  # Message ID of the pending SUBSCRIBE or UNSUBSCRIBE
        self.last_seq = -1
        self.seqs = {}  # number: sequence number

    def _set(self, e, **new):
        self.open[e.number] = Exchange(*[new.get(name, old) for name, old in zip(_FIELDS, e)])

    # --- the application ---

    def begin(self, message, online=False):
        """publish() is called with a server.Message; `online`: while connected. Returns the message's number."""
        number = len(self.messages)
        if online:
            self.sendable_below = number + 1
        self.messages[number] = message
        if message.qos:
            self.open[number] = Exchange(number, message.qos, 0, BEGUN, False, NEVER, True, False)
        return number

    def accept(self, number, mid, seq):
        """publish() returned this Message ID, and the journal assigned this sequence number."""
        e = self.open[number]
        if e.mid not in (0, mid):
            raise Finding(REUSED, "message %d was sent as %d, and publish() returned %d" % (number, e.mid, mid))
        self._check_free(mid, number)
        self.durable()
        if seq <= self.last_seq:
            raise Finding(OTHER, "sequence number %d after %d" % (seq, self.last_seq))
        self.last_seq = self.seqs[number] = seq
        for earlier in self.open:
            self.seqs.setdefault(earlier, seq - 1)  # at most: its publish() did not return
        self.accepted.add(number)
        self._set(e, mid=mid, phase=ACCEPTED)

    def refuse(self, number):
        """publish() refused the message, or a full journal dropped it."""
        self.open.pop(number, None)

    def may_drop(self):
        """The full journal may drop messages that were never sent in the session that the server has."""
        for e in self.open.values():
            if (e.tried == NEVER or e.number in self.lapsed) and e.phase == ACCEPTED:
                self.may_be_dropped.add(e.number)

    def discarding(self, e):
        """The application discards the message of this Exchange: it may be gone now, and its PUBREL may come."""
        self.given_up.add(e.number)
        self._set(e, unsure=True)

    def set_aside(self, mid):
        """The client told that it has set aside the message with this Message ID."""
        e = self.owner(mid)
        if e:
            self.aside.add(e.number)

    def overtaken(self, seq, mids):
        """Messages with lower sequence numbers and none of these Message IDs are set aside. Nobody is told if power was
        cut before that, or while an acknowledgement was handled."""
        for e in self.open.values():
            if e.mid and self.seqs.get(e.number, seq) < seq and e.mid not in mids and e.number not in self.aside:
                if not (self.may_be_any or e.number in self.may_be_aside or self._may_be_completed(e)):
                    raise Finding(ORDER, "message %d is set aside without a reason" % e.number)
                self.aside.add(e.number)

    def connection_lost(self):
        """The client notices that the connection has ended: it may set aside the oldest message."""
        for e in self.open.values():
            if e.number not in self.aside:
                self.may_be_aside.add(e.number)
                if self._is_due(e) or e.phase == RELEASED:
                    return

    def owner(self, mid):
        """The Exchange that uses this Message ID, None if none does."""
        return next((e for e in self.open.values() if e.mid == mid), None)

    def _may_be_completed(self, e):
        return e.unsure or e.number in self.may_be_dropped or e.number in self.given_up

    def _check_free(self, mid, number):
        # [MQTT-2.3.1-2]
        for e in [e for e in self.open.values() if e.mid == mid and e.number != number]:
            if not self._may_be_completed(e):
                raise Finding(REUSED, "Message ID %d for message %s is in use for %d" % (mid, number, e.number))
            del self.open[e.number]  # the reused id shows that it was completed
        if mid == self.request_mid:
            raise Finding(REUSED, "Message ID %d for message %s is in use for a SUBSCRIBE" % (mid, number))

    # --- what the client writes ---

    def clean_session_requested(self):
        """The client will request clean sessions, and records that in its journal before it sends CONNECT."""
        if PERSISTENT in self.modes:
            self.modes = tuple(set(self.modes) | {ENDING})

    def connected(self, repeats=False, clean=False):
        """The client sent CONNECT. `repeats`: it may retransmit on this connection after a time-out."""
        self.repeats = repeats
        self.clean = clean
        if clean:
            self.modes = tuple({ENDING if mode == PERSISTENT else mode for mode in self.modes})
        # Tuples are replaced when they grow, so copy() need not copy them.
        self.sent = ()  # numbers of PUBLISH packets sent on this connection
        self.order = ()  # the same since the client last began to retransmit
        self.pubrels_sent = ()  # numbers of PUBREL packets sent on this connection
        self.foreign_pubrecs = ()  # Message IDs of PUBRECs that answer no PUBLISH of this connection

    def tried(self, number):
        """The client wrote a PUBLISH to a broken connection."""
        e = self.open.get(number)
        if e and e.tried == NEVER:
            self._set(e, tried=PERHAPS)

    def publish_written(self, number, p):
        """The client sent the PUBLISH of the message with this number."""
        if (p.topic, p.payload, p.qos, p.retain) != self.messages.get(number):
            raise Finding(OTHER, "message %s was altered: %r" % (number, p))
        if p.qos:
            self._check_publish(number, p)
            self._set(self.open[number], mid=p.mid, unsure=False, tried=SENT, orphaned=False)
            self.given_up.discard(number)
            self.lapsed.discard(number)
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
            raise Finding(TWICE, "message %d is sent after its PUBREC" % number)
        if number in self.discarded:
            raise Finding(OTHER, "message %d is sent, and was discarded" % number)
        if e.tried == SENT and not p.dup:  # [MQTT-3.3.1-1]
            raise Finding(OTHER, "message %d is sent again without DUP" % number)
        if e.tried == NEVER and e.fresh and p.dup:
            raise Finding(OTHER, "message %d has DUP in its first PUBLISH" % number)
        if self.repeats and number in self.order:
            self.order = ()
        self._check_order(number)

    def _check_order(self, number):
        # [MQTT-4.4.0-1] [MQTT-4.6.0-1]: every unacknowledged message is sent, in the order of publish().
        if number in self.aside:
            before = [e.number for e in self.open.values() if self._is_due(e)]
            if before and number not in self.sent and not self.may_be_any:
                raise Finding(ORDER, "message %d was set aside, and is sent before %s" % (number, before))
            return
        if self.order and number <= self.order[-1]:
            raise Finding(ORDER, "message %d after %d" % (number, self.order[-1]))
        for e in self.open.values():
            if e.number < number and self._is_due(e) and e.number not in self.order:
                raise Finding(ORDER, "message %d overtakes %d" % (number, e.number))
        self.order += (number,)

    def _is_due(self, e):
        # Of damaged ones the Message ID must not be reused all the same.
        return (
            e.phase == ACCEPTED
            and not self._may_be_completed(e)
            and e.number not in self.maybe_damaged
            and e.number not in self.aside
        )

    def pubrel_written(self, mid):
        e = self.owner(mid)
        if not e or e.qos == 1 or e.tried == NEVER or mid in self.foreign_pubrecs:
            return  # the client frees an id that another journal may have left in use
        if e.phase == ACCEPTED and not e.unsure:
            raise Finding(OTHER, "PUBREL for message %d before its PUBREC" % e.number)
        self._set(e, phase=RELEASED, unsure=False)
        self.pubrels_sent += (e.number,)

    def request_written(self, mid):
        """The client sent SUBSCRIBE or UNSUBSCRIBE."""
        self._check_free(mid, None)
        self.request_mid = mid

    # --- what the client reads ---

    def packet_read(self, kind, mid):
        """The client reads a packet, so it has handled the packet before."""
        self.handled()
        if PUBACK <= kind <= PUBCOMP and kind != PUBREL:
            self.acknowledging = (kind, mid)
        elif kind in (SUBACK, UNSUBACK):
            self.request_mid = 0

    def handled(self):
        """The client has handled the packet that it read last."""
        if self.acknowledging:
            kind, mid = self.acknowledging
            self.acknowledging = None
            self._acknowledged(kind, mid, self.owner(mid))

    def _acknowledged(self, kind, mid, e):
        if kind == CONNACK:
            self._begin_session(*mid)
        elif kind == PUBREC and (not e or e.number not in self.sent):
            self.foreign_pubrecs += (mid,)
        elif kind == PUBREC and e.qos == 2:
            self.not_durable += (e,)
            self._set(e, phase=RELEASED, unsure=False)
        elif e and (
            (kind == PUBACK and e.qos == 1 and e.number in self.sent)
            or (kind == PUBCOMP and e.number in self.pubrels_sent)
        ):
            self.not_durable += (e,)
            del self.open[e.number]

    def durable(self):
        """All that the client handled must be durable now: it accepted a message, was idle, disconnected, or mounted
        its journal."""
        self.not_durable = ()

    def wrote(self):
        if self.clean or any(e.number in self.open for e in self.not_durable):
            self.durable()
        # The older ones of the others are. Nobody sees when the client made some of them durable with something else.
        self.not_durable = self.not_durable[max(0, len(self.not_durable) - self.done_waiting) :]

    def connack_read(self, none, window, level=4):
        """The client reads a CONNACK that accepts it. `none`: it tells that the server has no session. `window`: the
        client's max_inflight. At level 5 messages then begin anew, except those that the server had taken: they are
        done. At lower levels session_lost() tells what is done."""
        self.handled()
        over = [mode == CLEAN or (mode != UNSURE and self.clean) or (mode == ENDING and none) for mode in self.modes]
        more = sum(e.tried != NEVER for e in self.open.values()) - self.max_inflight
        self.acknowledging = (CONNACK, (over, none and level == 5, none and level < 5 and not self.clean, more))
        if any(over):
            self.given_up.update(
                e.number for e in self.open.values() if e.tried != NEVER or e.number in self.maybe_sent
            )
        self.max_inflight = max(self.max_inflight, window + len(self.aside & set(self.open)))
        self.sendable_below = len(self.messages)

    def _begin_session(self, over, anew, none, more):
        # The CONNACK has been handled; its effect on the journal may not be durable yet. Of those that were sent the
        # client gives up no more than its window had: some that are done, and live again, in place of others.
        spared = max(more, sum(e.unsure for e in self.open.values()))
        for e in sorted(self.open.values(), reverse=True):
            if any(over) and spared and e.phase == ACCEPTED and e.tried != NEVER:
                spared -= 1
                self._lapse(e)
            elif (all(over) and e.tried != NEVER) or (anew and e.phase == RELEASED):
                self.not_durable += (e,)
                del self.open[e.number]
            elif anew and e.tried == SENT:
                self._lapse(e)
        if none:
            self.session_lost()
        self.modes = tuple(set(self.modes) | {CLEAN if self.clean else PERSISTENT})

    def _lapse(self, e):
        # The session that it was sent in is gone: it is sent without DUP, or with it after a power cut.
        self._set(e, tried=PERHAPS)
        self.lapsed.add(e.number)

    def session_begun(self):
        """The client wrote a packet after CONNECT: the effect of CONNACK is durable."""
        self.modes = (CLEAN if self.clean else PERSISTENT,)

    def session_refused(self):
        """The client ends the session that CONNACK told of, and goes on with the next connection: that begins the
        session."""
        self.acknowledging = None

    def session_lost(self):
        """A CONNACK tells the client that the server has no session. The client sends PUBREL once more; if nothing
        answers, the exchange ends with the next connection that begins so."""
        for e in list(self.open.values()):
            if e.orphaned and e.phase == RELEASED:
                self.not_durable += (e,)
                del self.open[e.number]
            elif e.phase == RELEASED or e.unsure:  # its PUBREC may have been handled
                self._set(e, orphaned=True)

    # --- faults, and the verdict ---

    def records_damaged(self, records):
        """The client reports so many damaged records in its journal."""
        self.damaged += records
        if records:
            self.maybe_damaged.update(self.open)
            self.modes = tuple(set(self.modes) | {UNSURE})

    def disconnected(self):
        self.acknowledging = None
        self.request_mid = 0

    def power_cut(self, lost=False):
        """lost: changes that were not durable may be lost as well."""
        for e in self.not_durable if lost else ():
            self._set(e, unsure=True)
        kind, mid = self.acknowledging or (0, 0)
        for e in list(self.open.values()):
            if kind == CONNACK:
                _, anew, none, _ = mid
                if e.number in self.given_up or (e.phase == RELEASED and (anew or (none and e.orphaned))):
                    self._set(e, unsure=True)
                elif none and e.phase == RELEASED:
                    self._set(e, orphaned=True)
                elif anew and e.tried == SENT:
                    self._lapse(e)
            elif kind and e.mid == mid:
                self._set(e, unsure=True)
        if kind == CONNACK:
            self.modes = tuple(set(self.modes) | {CLEAN if self.clean else PERSISTENT})
        places = self.max_inflight
        for e in list(self.open.values()):
            if places and e.number < self.sendable_below:
                self.maybe_sent.add(e.number)
                in_flight = e.phase != BEGUN and not self._may_be_completed(e)
                places -= in_flight and e.number not in self.maybe_damaged and e.number not in self.aside
            self._set(e, fresh=False)
        self.disconnected()

    def read_anew(self):
        """The client mounted its journal: it knows no more than that tells."""
        for e in list(self.open.values()):
            self._set(e, fresh=False, orphaned=False)

    def judge(self):
        """Raises Finding if a message was lost; called when all exchanges have ended."""
        lost = self.accepted - self.received - self.given_up
        may_be = self.dropped + self.damaged
        if len(lost) > may_be or not lost <= self.may_be_dropped | self.maybe_damaged:
            raise Finding(LOST, "messages %s were accepted; %d may be missing" % (sorted(lost), may_be))


# --- messages from the server to the client ---


class Incoming(Copyable):
    """The messages that the server sends to the client, numbered 0, 1, ..."""

    def __init__(self):
        self.messages = {}  # number: server.Message
        self.excused = set()  # need not arrive: the server lost them with a session
        self.attempts = {}  # number: how often the client read its PUBLISH
        self.deliveries = {}  # number: how often the application received it
        self.done = set()  # acknowledged: must not be delivered again
        self.unanswered = ()  # (kind, Message ID) of the answers due, in order; replaced when it changes
        self.current = None  # number of the message that the client is reading
        self.complete = False  # the application has received all of it
        self.damaged = 0  # damaged records of the journal: each may make the client forget one message
        self._at = 0

    def add(self, message):
        number = len(self.messages)
        self.messages[number] = message
        return number

    def publish_read(self, number, mid):
        qos = self.messages[number].qos
        if qos:
            self.unanswered += ((PUBACK if qos == 1 else PUBREC, mid),)
        self.attempts[number] = self.attempts.get(number, 0) + 1
        self.current, self.complete = number, False

    def pubrel_read(self, mid):
        self.unanswered += ((PUBCOMP, mid),)

    def answer_written(self, kind, mid):
        # PUBACKs in the order of the messages of QoS 1 [MQTT-4.6.0-2], PUBRECs in that of those of QoS 2
        # [MQTT-4.6.0-3]: while one of QoS 2 that finds no space is left with the server, those of QoS 1 and PUBCOMPs go
        # on.
        due = [answer for answer in self.unanswered if answer[0] == kind]
        if due[:1] != [(kind, mid)]:
            raise Finding(OTHER, "type %d for Message ID %d is unexpected or out of order" % (kind, mid))
        i = self.unanswered.index((kind, mid))
        self.unanswered = self.unanswered[:i] + self.unanswered[i + 1 :]
        if kind != PUBCOMP and self.current is not None:
            self.done.add(self.current)
            self.current = None

    def application_received(self, number, offset, data, redelivered):
        """The application receives a chunk of a message."""
        payload = self.messages[number].payload
        if number != self.current or payload[offset : offset + len(data)] != data:
            raise Finding(OTHER, "the application received other data than message %s" % self.current)
        if not offset:
            self._count_delivery(number, redelivered)
            self._at = 0
        if offset != self._at:
            raise Finding(OTHER, "chunk at %d of message %d, not at %d" % (offset, number, self._at))
        self._at += len(data)
        self.complete = self._at == len(payload)

    def _count_delivery(self, number, redelivered):
        before = self.deliveries.get(number, 0)
        self.deliveries[number] = before + 1
        if self.messages[number].qos != 2:
            return
        if self.damaged and (number in self.done or (before and not redelivered)):
            self.damaged -= 1
            return
        if number in self.done:
            raise Finding(TWICE, "the application receives message %d again" % number)
        if before and not redelivered:
            raise Finding(TWICE, "the application receives message %d again without `redelivered`" % number)
        if redelivered and self.attempts[number] < 2 and number not in self.excused:
            raise Finding(OTHER, "message %d has `redelivered` at its first delivery" % number)

    def disconnected(self):
        if self.current is not None and self.complete:
            self.done.add(self.current)
        self.power_cut()

    def interrupted(self):
        """An operation of the client failed, or took effect in part: either its connection ends, or it goes on and
        answers what is due."""
        self.current = None

    def power_cut(self):
        self.current = None
        self.unanswered = ()

    def judge(self):
        """Raises Finding if a message was lost; called when all exchanges have ended."""
        expected = {number for number, message in self.messages.items() if message.qos} - self.excused
        lost = expected - (set(self.deliveries) & self.done)
        if lost:
            raise Finding(LOST, "the application never received messages %s" % sorted(lost))


# --- counting ---


class Tally:
    """Records which of the numbers 1, 2, 3... were received, a byte each; `repeated`: how many came more than once."""

    def __init__(self, numbers=()):
        self.repeated = 0
        self._received = bytearray()
        for number in numbers:
            self.add(number)

    def add(self, number):
        if number > len(self._received):
            self._received.extend(bytes(number - len(self._received)))
        self.repeated += self._received[number - 1]
        self._received[number - 1] = 1

    def missing(self, accepted):
        """How many of 1 to `accepted` were not received."""
        return accepted - sum(self._received[:accepted])


def judge(accepted, delivered):
    """Returns three lists of keys: not delivered, QoS 2 delivered more than once (an error), QoS 1 delivered more than
    once (allowed). `accepted`: {key: QoS}; `delivered`: {key: times}."""
    lost = [key for key in accepted if not delivered.get(key)]
    again = [key for key in accepted if delivered.get(key, 0) > 1]
    return lost, [key for key in again if accepted[key] == 2], [key for key in again if accepted[key] == 1]
