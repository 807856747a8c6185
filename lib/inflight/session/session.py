# The session: what this client and its broker owe each other. Bytes and time values go in,
# packets to write and events come out; there is no socket and no clock here.
#
# Theory of operation
# -------------------
# The owner of the connection does this in a loop:
#   1. It reads into `into` and reports that with bytes_received().
#   2. It calls next_event() until that returns 0. After a PUBLISH it calls the handlers, then delivered().
#   3. Before each call of next_event() it writes what data_to_send() offers, until that returns 0.
# So one acknowledgement at most waits to be sent, and acknowledgements are sent in the order in which
# the packets were received [MQTT-4.6.0-2, 4.6.0-3, 4.6.0-4].
#
#   state         next_event()                                     clause
#   reset         nothing is read
#   connecting    CONNACK 0: connected; 1-5: refused; other: error MQTT-3.1.0-1, 3.2.0-1
#   connected     PUBLISH: deliver, PUBACK or PUBREC               MQTT-3.3.4-1
#                 PUBREL: PUBCOMP                                  MQTT-4.3.3-2
#                 PUBACK, PUBREC, PUBCOMP: the table of window      MQTT-4.3.2-1, 4.3.3-1
#                 SUBACK, UNSUBACK: of the one request under way,
#                 of any other: counted                            MQTT-3.8.4-2, 3.10.4-4
#                 PINGRESP                                         MQTT-3.12.4-1
#                 CONNACK: error                                   MQTT-3.2.0-1
#
# What data_to_send() offers, in this order:
#
#   always        1. what is left of the packet that was begun (CONNECT and DISCONNECT are such, too)
#                 2. the acknowledgement that is due
#   connected     3. SUBSCRIBE or UNSUBSCRIBE
#                 4. the oldest PUBLISH or PUBREL that is to be sent; before a PUBLISH of QoS 2
#                    under an id that is not proven free, the PUBRELs of ForeignIds
#                 5. PINGREQ
#
# What is durable before a packet leaves
# --------------------------------------
# That which the packet says. All that was noted until then shares one sync, so the owner writes when it has handled all
# that it read, but for acknowledgements that it owes.
#
#   packet               what is durable before                        clause
#   PUBLISH              its record, and that its Message ID is free   MQTT-2.3.1-2, 4.3.2-1, 4.3.3-1
#   PUBREL               that the broker has the message: RELEASED     MQTT-4.3.3-1
#   PUBREC               the received id, and that it was delivered    MQTT-4.3.3-2
#   PUBCOMP              that the received id is free                  MQTT-4.3.3-2
#   the first of them    the SESSION record                            see below
#
# No packet says that a message of ours is done. So where a sync takes long some of those marks wait for others
# (`waiting` of the journal), but in a clean session: a power cut costs a repetition, of a PUBLISH of QoS 1 with
# DUP or of a PUBREL. A publish(), and a client that has nothing to do, makes all durable.
#
# Which messages can have left before a power cut?
# ------------------------------------------------
# Only those of the window, so of the live ones
# the first `most` at most, the largest window since the last clean session began; and as many more as are live again,
# though they were done (`waiting` of the journal at most). Of these, a message can have left
# - if it was accepted with a connection: its record has DUP then;
# - or if its number is below `below`: so many had been accepted without one when a connection began
#   to send them.
# The SESSION record has both. All other messages are known never to have left: they go out
# without DUP [MQTT-3.3.1-1], survive the end of a session, and may be dropped. Those behind the first `most` survive
# the end of a session, too: rather twice than never.
#
# A message that is set aside (see pending) has no row, and a number below `seq`.
#
# The SESSION record
# ------------------
# What a session keeps in the journal beside its messages and the ids that it received; FORMAT.md tells its body. There
# are two copies, since all messages depend on it. Its mode says what the next CONNACK means for the messages that were
# sent:
#
#   mode          then CONNACK says            what was sent, ids received     clause
#   PERSISTENT    session present, or level 3  continue                        MQTT-3.1.2-4, 4.4.0-1
#                 none present                 is sent again; are forgotten    MQTT-3.2.2-3
#   ENDING        clean session                is given up; are forgotten      MQTT-3.1.2-6
#                 session present, or level 3  continue
#                 none present                 is given up; are forgotten
#   CLEAN         anything                     is given up; are forgotten      MQTT-3.1.2-6
#   UNSURE        anything                     as PERSISTENT: never given up
#
# A CONNECT with clean session changes PERSISTENT to ENDING, its CONNACK changes it to CLEAN; any other CONNACK changes
# it to PERSISTENT.

from errno import ECONNABORTED

import inflight.counters as counters
import inflight.packet as packet

from ..journal.records import OUT  # isort: skip (from here: each import within an import takes stack)
from ..compat import const, passed, ticks_add, ticks_diff
from ..errors import OutboxFull
from ..states import COMP, DUP, ERROR, FINISH, IGNORED, OWED, REL, REPEAT, SEND, STATE, UNKNOWN
from .window import Window

_PROBES_MS = const(1000)  # until a PINGREQ finds out whether PUBRELs of ForeignIds will be answered
_PACE = const(256)  # bytes of a long message, at least, in ten time-outs
_MOST_TIMEOUTS = const(100)  # for an answer behind long messages


class Session(Window):
    """One session of one client with one broker. record.start() tells its arguments, and has the fields that a
    start sets."""

    counters = 20  # how many there are
    lost = 0  # messages that were found damaged since drain() has told of it: its reader sets it back
    notices = ()  # exceptions that the application is to be told of; its reader removes them
    quota = 0xFFFF  # so many messages are unacknowledged at most: of level 5
    too_long = 0  # messages behind the window that this connection does not take: of level 5
    maximum_out = packet.LONGEST  # bytes of the longest packet that the broker takes
    clock: "Any" = None  # type: ignore[name-defined] # noqa: F821  Seconds, once a message has an expiry: of level 5
    strikes = suspected = 0  # of the oldest message: see judge() of connect
    foreign = None  # ForeignIds, as long as there are some
    unproven = 0  # Message IDs that are not proven free: see ForeignIds in record
    retry = 0  # ms until unanswered packets are repeated
    closing = None  # called to end the connection, when its time has come: see skip_malformed() in receive
    left_with_broker = False  # a message of QoS 2 found no space: none goes before it [MQTT-4.6.0-6]
    _late_proofs = False  # PUBRELs of ForeignIds may still be answered, or once more
    granted = b""  # return codes of the last SUBACK
    ended = ()  # Message IDs that the last CONNACK completed
    # Of what record sets.
    count: "Any"  # type: ignore[name-defined] # noqa: F821  counters wrap at 32 bits
    client_id: bytes
    present: bool
    deliver: bool
    redelivered: bool
    code: int
    completed: int
    tick: int
    when_full: str
    identifier: int
    timeout_ms: int
    keep_alive: int
    below_stale: bool
    record_at: int
    record_copy: int
    record_stale: bool
    mode: int
    again_mid: int  # Message ID of the message that was set aside and failed last, 1: perhaps none
    most: int  # messages that can have left
    most_in: int  # rows for messages of QoS 2 from the broker, beside those that the journal had
    recorded_most: int
    below: int
    next_unproven: int

    def __init__(self, journal, buffer, client_id, protocol_level=4, *args, **options):
        # These make most of its fields, and the table of them takes heap in one piece: before more is loaded.
        self.use(buffer, journal, protocol_level)
        self.reset()
        from .record import start

        start(self, client_id, *args, **options)

    def recover(self):
        """After an operation that was interrupted (`busy` stands), also by flash that failed: the journal is mounted
        again in place, and all that it knows is read anew. The connection is over. Raises OSError."""
        self.reset()
        if self.journal:
            if self.journal.owner is not self:
                return  # and nothing begins any more
            self.journal.recover()
            self._load()
        self.busy = False

    def begin(self):
        """An operation begins: what changes the session is whole when `busy` is off again; whatever interrupts it
        leaves it on. Each packet passes next_event() and data_to_send(): these spare the call, unless it refuses.
        Raises OSError, ValueError."""
        if self.busy:
            if self.journal and self.journal.owner is not self:
                raise ValueError("another client uses this journal since: make a new one for it, or a journal for each")
            raise OSError(ECONNABORTED, "interrupted: the client connects again")
        self.busy = True

    def _load(self):
        # Builds what the journal knows, at a start and after it was mounted again in place.
        from .record import load

        load(self)

    def expect_qos_2(self):
        """The broker may send messages of QoS 2: there are rows for them."""
        if len(self.mids) == self.limit:
            from .record import load_received

            load_received(self)

    def moved(self, old, new):
        """The journal copied a record to another address."""
        for i in range(len(self.addresses)):
            if self.addresses[i] == old:
                self.addresses[i] = new
        if self._accepted == old:
            self._accepted = new
        if self.out_address == old:
            self.out_address = new
        if self.record_at == old:
            self.record_at = new
        if self.record_copy == old:
            self.record_copy = new

    def can_spare(self, at, anew=False):
        """The journal finds no space for a copy of the record at address `at`. True: it may go, since it is one of two
        copies of the SESSION record. One will do until there is space. anew: may it go, since another one is about to
        be written?"""
        if at not in (self.record_at, self.record_copy):
            return False
        if anew or self.record_copy < 0:
            return anew
        if at == self.record_at:
            self.record_at = self.record_copy
        self.record_copy = -1
        self.record_stale = True
        return True

    @property
    def pending(self):
        """Messages of QoS 1 and 2 that the broker has not completed."""
        return self.journal.live if self.journal else 0

    # --- the connection ---

    def reset(self):
        """The connection is gone, or was never there. What is in flight stays in the journal."""
        self.connected = self.holds_journal = False
        self.old_received = 0
        self.resumed = 0  # 1: PUBRELs may go; DUP: messages too, also those accepted from now on
        self.forget_received()
        self.clear()
        if self.foreign and self.unproven:
            self.foreign.reset()
        else:
            self.foreign = None
        self.clean = False
        if self.closing:
            self.closing = None
            self.left_with_broker = False
        self.ack_due = 0  # the acknowledgement that is due: type, DUP of a PUBREL, Message ID
        self.request = None  # what is asked for: filters, their QoS, properties; see subscribe
        self.request_mid = 0
        self.request_due = 0  # it is to be sent: 1, with the flag DUP 9
        if self._late_proofs:
            self._late_proofs = False
        self.now = self.progress_at = 0
        self._retry_pause = self.retry
        self.restart_timers(0)

    def connection_lost(self, client=None, error=None):
        """The connection broke, with this error of `client`. Returns how many attempts its pause counts at most."""
        self.count[counters.OUTAGES] += 1
        most = 0xFFFF
        if self.rows:
            try:
                from .connect import judge

                most = judge(self, error)
            except (OSError, ValueError, MemoryError):
                pass  # flash, another client that has the journal, no memory: what is half done is recovered
        self.reset()
        return most

    def connect(self, now, clean_session, keepalive, user, password, will):
        """A connection stands, CONNECT is its first packet [MQTT-3.1.0-1]; keepalive in seconds,
        strings as bytes. Raises ValueError if the packet does not fit the buffer, OSError if flash fails."""
        from .connect import connect

        connect(self, now, clean_session, keepalive, user, password, will)

    def connect_fields(self, clean_session, will):
        """Returns what level 5 has otherwise in CONNECT: its flag 2, and the properties of it and of its will."""
        return clean_session, (b"", b"")

    def resume(self):
        """Lets messages go, those in flight first [MQTT-4.4.0-1]. From now on the broker may know
        Message IDs of ours: the journal knows of the session before the first one leaves, and that the ids
        which a lost session received are forgotten before one comes anew. Raises OSError if flash fails."""
        from .connect import resume

        resume(self)

    # --- keep alive: any byte that arrives shows that the broker is alive ---

    def restart_timers(self, now):
        """A connection begins."""
        self.ping_requested = False  # the application wants a PINGREQ
        self._sent_at = self._received_at = now  # when a packet left, and when bytes came
        self._ping_at = -1  # when the PINGREQ was sent that is unanswered
        self._long_received = 0  # bytes of a long message since _long_at
        self._long_at = now

    @property
    def pinging(self):
        """True while a PINGREQ is unanswered, or waits to be sent."""
        return self.ping_requested or self._ping_at >= 0

    def paused(self, since, now):
        """From `since` until now the application had its turn: an answer that came was not read."""
        if self._ping_at >= 0:
            self._ping_at = ticks_add(now, -max(0, ticks_diff(since, self._ping_at)))

    def overdue(self, now):
        """True if the time for a PINGRESP has passed [MQTT-3.12.4-1]."""
        return self._ping_at >= 0 and not self.time_left(now, self._ping_at)

    def time_left(self, now, start):
        """Returns how many ms are left for an answer that is waited for since `start`, 0: none. Each byte that arrives
        gives it the whole time-out again, because a broker that sends something else is alive. In all it has ten
        time-outs, since the broker has to answer some time; a long message in front of the answer gives it ten more
        with every _PACE bytes, a hundred at most."""
        timeout = self.timeout_ms
        bound = self._long_at if ticks_diff(self._long_at, start) > 0 else start
        last = self._received_at if ticks_diff(self._received_at, start) > 0 else start
        if (
            passed(now, last, timeout)
            or passed(now, bound, 10 * timeout)
            or passed(now, start, _MOST_TIMEOUTS * timeout)
        ):
            return 0
        return timeout - ticks_diff(now, last)

    def _ping_due(self):
        # A PINGREQ is also sent when only the broker was silent: so a dead link is noticed.
        if self.ping_requested:
            return True
        interval = self.keep_alive
        if not interval or self._ping_at >= 0:
            return False
        return passed(self.now, self._sent_at, interval) or passed(self.now, self._received_at, interval)

    def _send_ping(self):
        if self.foreign:
            self.foreign.pinged = True
        self.ping_requested = False
        self._ping_at = self.now
        self.count[counters.PINGS] += 1
        self.view = self.spare
        return packet.bare(self.view, packet.PINGREQ)

    # --- durability ---

    def commit(self):
        """Makes durable what the journal took, unless another client has taken it over. Raises OSError."""
        if self.journal and self.journal.owner is self:
            self.begin()
            self.journal.commit()
            self.busy = False

    def collect(self, idle=True):
        """The client has time: `idle`, all that was noted becomes durable; a sector may be erased ahead of its use, or,
        `idle`, be read (one at most). After an operation that was interrupted recover() comes first. Raises OSError."""
        if self.busy:
            return
        if self.closing:
            self.closing(self)
        self.busy = True
        if self.journal:
            if idle:
                self.journal.commit()
            self.journal.collect(idle)
        self.busy = False

    # --- going out ---

    def publish(self, name, payload, qos, retain):
        """Takes a message: at QoS 1 and 2 it is durable when this returns; at QoS 0 it is what data_to_send() offers
        next (there must be nothing left to offer). name is bytes. Returns the Message ID, 0 at QoS 0 or if the full
        journal dropped it. Raises ValueError, OutboxFull, OSError if flash fails."""
        self.begin()
        try:
            mid = self._publish_message(name, payload, qos, retain)
        except (ValueError, OutboxFull):  # nothing has changed
            self.busy = False
            raise
        self.busy = False
        return mid

    def _publish_message(self, name, payload, qos, retain):
        mid = self.free_mid(self.request_mid) if qos else 0
        n = self.put_publish(name, payload, qos, retain, mid)
        if not qos:
            self.send(n)
            self.count[counters.SENT] += 1
            return 0
        journal = self.journal
        if self.when_full and self.out_size <= journal.largest and not journal.fits(OUT, self.out_size):
            from .drop import make_space

            if not make_space(self, self.out_size):
                return 0
        dup = self.resumed & DUP
        address = self._append(mid, dup)
        self.last_mid = mid
        if not dup:
            self.below_stale = True
        if self.queued or self.rows == self.limit:
            self.queued += 1
            address = -1
        else:  # it goes straight into the window
            self.set_row(self.rows, mid, address, SEND)
            self.rows += 1
            self.waiting = True
            self.seq = journal.next_seq
        self._keep(address)
        journal.commit()
        self.count[counters.ACCEPTED] += 1
        return mid

    def subscribe(self, filters, qos):
        """Asks for filters (bytes) at qos[i], or gives them up if qos is None. next_event()
        returns the SUBACK or UNSUBACK. One request at a time. Level 5: `identifier` is its Subscription Identifier."""
        self.begin()
        from .subscribe import request

        request(self, filters, qos)
        self.busy = False

    def disconnect(self, code=0):
        """DISCONNECT is the last packet to leave [MQTT-3.14.4-2]; level 5 has a reason code."""
        self.clear()
        self.send(packet.bare(self.out, packet.DISCONNECT))
        self.connected = False

    def data_to_send(self, now):
        """Returns how many bytes of `view`, from out_at on, are to be written next, whole and
        before anything else; 0 if there is nothing to say. What they say is durable by then: all that
        leaves is offered here. Raises OSError if flash fails."""
        if self.busy:
            self.begin()
        self.busy = True
        self.now = now
        n = self._select()
        if n:
            if self.journal:
                self.journal.commit(0 if self.clean else self.journal.waiting)
            self._sent_at = now
        self.busy = False
        return n

    def _select(self):
        n = self.next_part()
        if n:
            return n
        if self.ack_due:
            n = self._put_ack(self.ack_due >> 20, self.ack_due & 0xFFFF, self.ack_due >> 16 & 8)
            self.ack_due = 0
            return n
        if not self.connected:
            return 0
        if self.resumed and self.retry and passed(self.now, self.progress_at, self._retry_pause):
            self.repeat_unanswered()
        if self.request_due:
            from .subscribe import write

            return write(self)
        foreign = self.foreign
        if self.aside and self.resumed & DUP:
            self.aside.look(self)
        if self.resumed and self.waiting:
            i = self.next_row()
            if i >= 0 and not (foreign and foreign.asked and self.states[i] & STATE != OWED):
                return self._send_message(i)
        if foreign and foreign.asked and not foreign.pinged and passed(self.now, self.progress_at, _PROBES_MS):
            self.ping_requested = True  # some brokers do not answer PUBRELs for ids that they do not hold
        if self._ping_due():
            return self._send_ping()
        return 0

    def _put_ack(self, kind, mid, dup):
        # Beside the packet in the buffer, which is left alone.
        self.view = self.spare
        return packet.ack(self.view, kind, mid, dup)

    def repeat_unanswered(self):
        """Nothing was answered for a while: level 3 lets a sender repeat, ever more slowly."""
        self.progress_at = self.now
        if self.foreign and self.foreign.asked:
            self._late_proofs = True
            self.foreign.asked = 0
        some = self.retransmit()
        if self.request and not self.request_due:
            some = self.request_due = 1 | self._dup()
        if some:
            self._retry_pause = min(self._retry_pause * 2, 600_000)

    def _dup(self):
        # The flag of a PUBREL, SUBSCRIBE or UNSUBSCRIBE that is re-sent: reserved at level 4.
        return 8 if self.protocol_level == 3 else 0

    def _send_message(self, i):
        mid = self.mids[i]
        states = self.states
        self.progress_at = self.now
        state = states[i] & STATE
        if state >= REL:
            again = state == REL
            n = self._put_ack(packet.PUBREL, mid, self._dup() if again else 0)
            states[i] += COMP - state
            if again:
                self.count[counters.RESENT] += 1
        else:
            dup = states[i] & DUP
            n = self.load_publish(self.addresses[i], dup)
            if not n:
                return 0
            qos = self.view[self.out_at] >> 1 & 3
            if qos == 2 and self.foreign and self.foreign.is_unproven(mid):
                self.clear()
                return self.foreign.write_probes(self.out, mid)
            states[i] += qos  # to ACK or REC
            self.count[counters.RESENT if dup else counters.SENT] += 1
        if i + 1 == self.rows:  # next_row() finds the first: none waits before it, none stands behind
            self.waiting = False
        return n

    # --- coming in ---

    def bytes_received(self, n, now):
        """n bytes were read into `into`: the broker is alive."""
        self._received_at = now
        if self.left > 0:
            self._long_received += n
            if self._long_received >= _PACE:
                self._long_received = 0
                self._long_at = now
        self.got(n)

    def next_event(self, now):
        """Handles the next packet, or piece of a PUBLISH, that was received. Returns its type, 0 if
        more bytes are needed. After a PUBLISH: hand it over if `deliver`, then call delivered().
        Raises, and the connection is to be closed: ProtocolError [MQTT-4.8.0-1]; OSError if flash fails;
        ENOBUFS if more QoS 2 messages are in flight than it takes, of which no CONNECT can tell the broker. Where
        messages to the broker wait, they go first, and collect() raises it."""
        if self.busy:
            self.begin()
        self.busy = True
        kind = 0
        try:
            kind = self.next_packet()
            if kind:
                self.now = now
                if self.connected == (kind == packet.CONNACK) and kind <= packet.DISCONNECT:
                    raise self.fault(kind)
                self._handle(kind)
        except (packet.ProtocolError, OutboxFull) as e:  # what was noted stands
            self.busy = False
            from .receive import skip_malformed

            kind = skip_malformed(self, e, kind)
        self.busy = False
        return kind

    def _handle(self, kind):
        if kind == packet.PUBLISH:
            self.load_receiving().arrived(self)
        elif kind == packet.CONNACK:
            from .connect import connack

            connack(self)
        elif kind == packet.PUBREL:
            if self.rows_in:
                self.load_receiving().released(self)
            self.ack_due = packet.PUBCOMP << 20 | self.mid
        elif kind <= packet.PUBCOMP:
            self._handle_ack(kind)
        elif kind == packet.PINGRESP:
            self._ping_at = -1
            if self.foreign and self.foreign.ping_answered():
                self._late_proofs = True
        else:
            from .subscribe import suback

            suback(self, kind)

    def delivered(self):
        """The application has had what next_event() returned. A message is acknowledged when it was the last piece,
        with or without a handler [MQTT-3.3.4-1, 4.5.0-2]."""
        self.load_receiving().delivered(self)

    def acknowledge(self, flags, mid, answer=True):
        """The application is done with the message that came with these flags and Message ID. answer False: not on this
        connection."""
        self.load_receiving().acknowledge(self, flags, mid, answer)

    def _handle_ack(self, kind):
        mid = self.mid
        if kind == packet.PUBCOMP and self.foreign and self.foreign.is_answer(mid):
            return
        act = self.acknowledged(kind, mid)
        if act == ERROR and self._late_proofs and kind == packet.PUBCOMP:
            act = IGNORED
        if act == ERROR:
            raise self.fault(kind, mid)
        if act == IGNORED or act == UNKNOWN:
            self.count[counters.UNKNOWN_ACKS] += 1
        else:
            self.progress_at = self.now
            self._retry_pause = self.retry
        if act == FINISH:
            self.count[counters.COMPLETED] += 1
            self.completed = mid
        elif kind == packet.PUBREC and (act == REPEAT or act == UNKNOWN):
            self.ack_due = packet.PUBREL << 20 | (self._dup() << 16 if act == REPEAT else 0) | mid
