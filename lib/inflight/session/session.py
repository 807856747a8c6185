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
# A message that is set aside (see SetAside) has no row, and a number below `seq`.
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

import struct
import sys
from array import array
from errno import ECONNABORTED, ENOBUFS

import inflight.counters as counters
import inflight.packet as packet

from ..journal.records import ASIDE, DONE, IN, NOTES, OUT, OVERHEAD, RELEASED, SESSION  # isort: skip (from here: each import within an import takes stack)
from ..compat import const, copy, passed, ticks_add, ticks_diff
from ..errors import OutboxFull
from ..packet import PUBLISH, PUBREL, SUBACK, UNSUBACK, ProtocolError, ack, begin, length, put_string
from ..states import (
    ACK,
    ALONE,
    ANY,
    ASK,
    CLEAN,
    COMP,
    DELIVERED,
    DUP,
    ENDING,
    ERROR,
    FINISH,
    GIVEN_UP,
    IGNORED,
    OWED,
    PERSISTENT,
    RECEIVED,
    REL,
    REPEAT,
    SEND,
    STATE,
    SUSPECT,
    TOO_LONG,
    TRIAL,
    UNKNOWN,
    UNSURE,
)
from .receive import Receiving
from .refused import MessageDamaged, MessageSetAside
from .subscribe import request_packet, request_size

if sys.implementation.name == "micropython":
    from array import array as Counters  # its items wrap, so that counting never fails
else:
    from ..cpython import Counters

_PROBES_MS = const(1000)  # until a PINGREQ finds out whether PUBRELs of ForeignIds will be answered
_PACE = const(256)  # bytes of a long message, at least, in ten time-outs
_MOST_TIMEOUTS = const(100)  # for an answer behind long messages
_FORM_SIZE = const(11)  # bytes of the SESSION record before the client id, see below
_ASSIGNED = const(48)  # bytes of a client id that a broker assigns, as is expected
_FORM = b"<BHIHH"  # before the client id: mode and serial number, most, below, next_unproven, unproven
_BELOW_END = const(7)  # what is behind it is right in a record that is released
_PROBES = const(16)  # PUBRELs in one write; the smallest buffer has space for them
_SURE = const(4)
# Reason codes of DISCONNECT that are about no message.
_OTHERS = b"\x89\x8b\x8d\x8e\x98\x9c\x9d\x9f\xa0"
_MOST_TRAILER = const(131)  # bytes of an OUT record behind its PUBLISH
_MOST_NOTICES = const(16)  # of messages that were damaged
_START = const(7)  # bytes of a record up to the length of the topic, at most
_PAUSE_MS = const(60_000)  # the first one, and the longest
_LONGEST_PAUSE_MS = const(86_400_000)
_ALONE_MS = const(20_000)  # a message that is sent alone, and not acknowledged, holds up the others for so long
_NOTICES = const(8)  # that the application has not been told yet, at most
_SENT = const(32)  # Message IDs, at most
_CODES = b"\x00\x01\x02\x80"
_CODES_5 = {SUBACK: b"\x00\x01\x02\x80\x83\x87\x8f\x91\x97\x9e\xa1\xa2", UNSUBACK: b"\x00\x11\x80\x83\x87\x8f\x91"}
_SUBSCRIPTION = const(0x0B)  # the property


class Session(Receiving):
    """One session of one client with one broker. _start_session() tells its arguments, and sets most of its fields."""

    counters = 20  # how many there are
    lost = 0  # messages that were found damaged since drain() has told of it: its reader sets it back
    notices = ()  # exceptions that the application is to be told of; its reader removes them
    quota = 0xFFFF  # so many messages are unacknowledged at most: of level 5
    too_long = 0  # messages behind the window that this connection does not take: of level 5
    maximum_out = packet.LONGEST  # bytes of the longest packet that the broker takes
    clock: "Any" = None  # type: ignore[name-defined] # noqa: F821  Seconds, once a message has an expiry: of level 5
    strikes = suspected = 0  # of the oldest message: see _judge()
    foreign = None  # ForeignIds, as long as there are some
    unproven = 0  # Message IDs that are not proven free: see ForeignIds
    retry = 0  # ms until unanswered packets are repeated
    _late_proofs = False  # PUBRELs of ForeignIds may still be answered, or once more
    granted = b""  # return codes of the last SUBACK
    ended = ()  # Message IDs that the last CONNACK completed
    # Of what a start sets.
    client_id: bytes
    present: bool
    code: int
    completed: int
    tick: int
    when_full: str
    timeout_ms: int
    keep_alive: int
    below_stale: bool
    record_at: int
    record_copy: int
    record_stale: bool
    mode: int
    again_mid: int  # Message ID of the message that was set aside and failed last, 65535 at first
    most: int  # messages that can have left
    most_in: int  # rows for messages of QoS 2 from the broker, beside those that the journal had
    recorded_most: int
    below: int
    next_unproven: int
    owed: int  # of level 5

    def __init__(self, journal, buffer, client_id, protocol_level=4, *args, **options):
        # These make most of its fields, and the table of them takes heap in one piece: before more is loaded.
        self.use(buffer, journal, protocol_level)
        self.reset()
        self._start_session(client_id, *args, **options)

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
        self._load_journal()

    def expect_qos_2(self):
        """The broker may send messages of QoS 2: there are rows for them."""
        if len(self.mids) == self.limit:
            self._load_received()

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
            self.closing = False
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
                most = self._judge(error)
            except (OSError, ValueError, MemoryError):
                pass  # flash, another client that has the journal, no memory: what is half done is recovered
        self.reset()
        return most

    def connect(self, now, clean_session, keepalive, user, password, will):
        """A connection stands, CONNECT is its first packet [MQTT-3.1.0-1]; keepalive in seconds,
        strings as bytes. Raises ValueError if the packet does not fit the buffer, OSError if flash fails."""
        self._begin_connection(now, clean_session, keepalive, user, password, will)

    def connect_fields(self, clean_session, will):
        """Returns what level 5 has otherwise in CONNECT: its flag 2, and the properties of it and of its will."""
        return clean_session, (b"", b"")

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
            self._close_in_time()
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
            if not self._drop_for(self.out_size):
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

    def subscribe(self, filters, qos, identifier=0):
        """Asks for filters (bytes) at qos[i], or gives them up if qos is None. next_event()
        returns the SUBACK or UNSUBACK. One request at a time. Level 5: `identifier` is its Subscription Identifier."""
        self.begin()
        self._make_request(filters, qos, identifier)
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
        self.view = self.out
        self.out_at = 0
        if self.ready or self.out_left:
            return self.next_part()
        if self.ack_due:
            n = self._put_ack(self.ack_due >> 20, self.ack_due & 0xFFFF, self.ack_due >> 16 & 8)
            self.ack_due = 0
            return n
        if not self.connected:
            return 0
        if self.resumed and self.retry and passed(self.now, self.progress_at, self._retry_pause):
            self.repeat_unanswered()
        if self.request_due:
            return self._put_request()
        foreign = self.foreign
        if self.aside and self.resumed & DUP:
            self.aside.look(self)
        if self.resumed and self.waiting:
            i = self.next_row()
            if i >= 0 and not (foreign and foreign.asked and self.states[i] & STATE != OWED):
                return self._send_message(i)
        if foreign and foreign.asked and not foreign.pinged and passed(self.now, self.progress_at, _PROBES_MS):
            self.ping_requested = True  # some brokers do not answer PUBRELs for ids that they do not hold
        interval = self.keep_alive
        if self.ping_requested or (
            interval
            and self._ping_at < 0
            # Also when only the broker was silent: so a dead link is noticed.
            and (passed(self.now, self._sent_at, interval) or passed(self.now, self._received_at, interval))
        ):
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
            kind = self._skip_malformed(e, kind)
        self.busy = False
        return kind

    def _handle(self, kind):
        if kind == packet.PUBLISH:
            self._take_publish()
        elif kind == packet.CONNACK:
            self._receive_connack()
        elif kind == packet.PUBREL:
            if self.rows_in:
                self._release_received()
            self.ack_due = packet.PUBCOMP << 20 | self.mid
        elif kind <= packet.PUBCOMP:
            self._handle_ack(kind)
        elif kind == packet.PINGRESP:
            self._ping_at = -1
            if self.foreign and self.foreign.ping_answered():
                self._late_proofs = True
        else:
            self._receive_suback(kind)

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

    # --- a start, and another one in place: the fields, and what the journal knows ---

    def _start_session(
        self, client_id, max_inflight=8, receive_maximum=20, keepalive=0, retry_ms=0, when_full=None, timeout_ms=0
    ):
        """The fields of a Session that is kept in its journal (None: nothing is sent above QoS 0, and ids of received
        QoS 2 messages stay in RAM). max_inflight and receive_maximum bound the messages in flight each way. keepalive:
        ms without a packet after which a PINGREQ is sent; retry_ms: the first interval between repetitions (0: never);
        timeout_ms: how long an answer may take.

        Raises ValueError if the journal serves another client id [MQTT-3.1.3-2], or is smaller than half the buffer."""
        journal = self.journal
        if journal and len(self.out) > journal.size:
            raise ValueError("buffer: twice the %d bytes of the journal at most" % journal.size)
        self.keep_alive = keepalive
        self.timeout_ms = timeout_ms
        self.count = Counters("I", bytes(4 * self.counters))
        self.present = False  # session present of the last CONNACK
        self.code = 0  # its return code
        self.deliver = False  # the application is owed the piece that next_event() returned
        self.redelivered = False  # it may have had that message before, when power was cut
        self.completed = 0  # Message ID that next_event() completed last; its reader sets it back
        self.client_id = client_id
        self.retry = retry_ms
        self.tick = min(1000, keepalive * 2 // 15 or 1000, retry_ms or 1000)  # its timers are looked at this often, ms
        self.when_full = when_full
        self.limit = max_inflight  # rows of messages to the broker
        self.most_in = receive_maximum
        if journal:  # as many ids as it has space for beside both copies of the SESSION record
            n = OVERHEAD + _FORM_SIZE + (len(client_id) or _ASSIGNED)
            self.most_in = max(1, min(receive_maximum, (journal.reserve - 2 * n) // OVERHEAD))
        self.busy = False  # an operation is under way, or one that did not come to its end left things half done
        # Is it told that a start passed over numbers? After a failure, which is none, the journal knows whose they
        # were.
        told = not journal or not journal.found_skipped or None in journal.lost
        try:
            self._load()
        except OSError:  # as within a mount: what went to a worn page is a record that was cut short
            if not journal.failed:
                raise
            self._load()
        if not told:
            self.tell_lost()

    def _load_journal(self):
        """Builds what the journal knows."""
        journal = self.journal
        if journal:
            self._own_journal(journal)
            if self.mids:
                self._drop_unreadable()  # sending one may have failed
        lost = self._find_record()
        if journal and journal.lost:
            self.tell_lost(journal.lost)
            journal.lost = []
        self.foreign = None  # ForeignIds, as long as there are some
        self.most = self.load_window()  # how many messages can have left
        if journal:
            if journal.scan(IN, -1) >= 0:
                self.expect_qos_2()
            if lost or (journal.found_damaged and journal.found_skipped and self.record_at >= 0):
                self._suspect_after_damage()
            elif self.unproven:
                self.suspect_ids(self.next_unproven, self.unproven)
            if self.record_stale:
                self.write_record(self.most)
            journal.found_damaged = journal.found_skipped = 0

    def _own_journal(self, journal):
        # A client holds its journal while it has a connection, or attempts to connect: not from its constructor on,
        # which may be interrupted, so that nobody has the client. Whoever is made at another time takes the journal
        # over; the client before it knows nothing of what happens there, and may not use it any more.
        owner = journal.owner
        if owner and owner is not self:
            if owner.holds_journal:
                raise ValueError("another client uses this journal: disconnect() it first, or make a journal for each")
            owner.busy = True
        if journal.failed:  # also where the client before this one was interrupted
            journal.recover()
        journal.owner = self

    # --- the SESSION record, whose theory stands above ---

    def _find_record(self):
        """Finds the copies of the SESSION record. Returns True if this start found that they are gone. Raises
        ValueError if the journal serves another client id [MQTT-3.1.3-2], or is too small for this one."""
        self.record_at = self.record_copy = -1
        self.record_serial = 0
        self.again_mid = 65535
        self.mode = PERSISTENT
        self.recorded_most = self.below = 0  # which messages can have left: see above
        self.next_unproven = self.unproven = 0  # which Message IDs are not proven free: see ForeignIds
        self.record_stale = False  # something of this has changed since write_record()
        if self.strikes:
            self.strikes = 0
        journal = self.journal
        if not journal:
            return False
        n = _FORM_SIZE + len(self.client_id)
        if 2 * journal.cost(n) + OVERHEAD > journal.reserve:
            raise ValueError("client_id: %d bytes are too many for a journal of this size" % (n - _FORM_SIZE))
        at = journal.scan(SESSION, -1)
        while at >= 0:
            self._read_record(at, journal.found_len)
            at = journal.scan(SESSION, at)
        lost = self.record_at < 0 and (journal.found_damaged > 1 or self._had_connection())
        if lost:  # both copies were damaged, perhaps: none is given up
            self.mode = UNSURE
        if lost or self.record_stale:  # every message can have left
            self.recorded_most = 65535
            self.below = journal.next_seq
        self.record_stale = lost or self.record_stale or (self.record_at >= 0) != (self.record_copy >= 0)
        return lost

    def _had_connection(self):
        # True if a message was accepted with a connection: then there was a record.
        first = bytearray(1)
        at = self.journal.scan(OUT, -1)
        while at >= 0:
            self.journal.read(at, 0, first)
            if first[0] & DUP:
                return True
            at = self.journal.scan(OUT, at)
        return False

    def _read_record(self, at, n):
        journal = self.journal
        body = bytearray(n)
        journal.read(at, 0, body)
        if n < _FORM_SIZE or body[_FORM_SIZE:] != self.client_id:
            raise ValueError("the journal serves another client id: use that one, or format the journal")
        serial = body[0] >> 4
        self.again_mid = journal.found_mid or self.again_mid
        stale = journal.found_state & RELEASED > 0
        found = self.record_at >= 0
        if found and serial == self.record_serial and self.record_copy < 0:
            self.record_copy = at
            self.record_stale = self.record_stale or stale
            return
        if found and (serial - self.record_serial & 15) > 8:
            journal.mark(at, DONE)  # an older one: power was cut before it was marked
            return
        self._mark_copy(self.record_at, DONE)
        self._mark_copy(self.record_copy, DONE)
        self.record_copy = -1
        self.record_at = at
        self.record_stale = stale
        self.record_serial = serial
        self.mode = body[0] & 3
        if body[0] & 12:
            self.strikes = body[0] >> 2 & 3
        fields = struct.unpack_from(_FORM, body, 0)
        _, self.recorded_most, self.below, self.next_unproven, self.unproven = fields

    def write_record(self, most, anew=False):
        """Makes the SESSION record durable. The old second copy stays until there is a new one: damage to one copy
        costs nothing, wherever power is cut. Where the first one says all this, the second one alone is written. Power
        cuts and worn pages can leave no space. If nothing but most and below has changed, the old copies are marked
        then: every message can have left. That takes no space, and messages that are completed make some. most: how
        many messages can have left. anew: the second copy is another one in any case, for its Message ID. Raises
        OSError if flash fails, or if there is no space for another change."""
        journal = self.journal
        self.record_stale = False
        self.recorded_most = min(most, 65535)
        body = bytearray(_FORM_SIZE + len(self.client_id))
        if self.record_at >= 0:
            journal.read(self.record_at, 0, body)
        if body != self._record_body():
            known = body
            self.record_serial = self.record_serial + 1 & 15
            body = self._record_body()
            try:
                address = journal.append(SESSION, 0, body, len(body))
            except OutboxFull as e:
                self.record_serial = self.record_serial - 1 & 15
                self.record_stale = True
                same = (known[0] ^ body[0]) & 3 == 0 and known[_BELOW_END:] == body[_BELOW_END:]
                if not same or self.record_at < 0 or self.mode in (ENDING, CLEAN):
                    raise OSError(ENOBUFS, str(e))
                self._mark_copy(self.record_at, RELEASED)
                self._mark_copy(self.record_copy, RELEASED)
                journal.commit()
                return
            old = self.record_at  # where it is now: append() may have moved it
            self.record_at = address
            journal.commit()
            self._mark_copy(old, DONE)
        elif self.record_copy >= 0 and not anew:
            return
        try:
            copy = journal.append(SESSION, self.again_mid, body, len(body))  # not 0: it is not a record that was moved
        except OutboxFull:
            self.record_stale = True  # one will do until there is space
            copy = -1
        journal.commit()
        old = self.record_copy
        self.record_copy = copy
        self._mark_copy(old, DONE)

    def _record_body(self):
        first = self.mode | min(self.strikes, 3) << 2 | self.record_serial << 4
        body = struct.pack(_FORM, first, self.recorded_most, self.below, self.next_unproven, self.unproven)
        return body + self.client_id

    def _mark_copy(self, address, state):
        if address >= 0:
            self.journal.mark(address, state)

    # --- the rows: what the journal says of messages in flight ---

    def load_window(self):
        """The rows of messages to the broker, and which of the others can have left: the SESSION record has been found.
        Returns how many had left, at most."""
        journal = self.journal
        self.rows = 0
        if self.rows_in:
            self.rows_in = 0
        self._allocate(self.limit)
        if self.aside:
            self.aside = None
            self.reach = ANY
        self.queued = 0  # messages in the journal behind the window
        self.waiting = False  # a row may be in SEND or REL
        self.seq = 0  # where the messages behind the window begin
        self.sent_below = 0  # those behind the window can have left if their number is below this
        self.below_stale = False  # some were accepted without a connection, and `below` does not tell
        self.last_mid = 0  # the id that was given last
        self.asked = None
        self.used_mid = 0  # the first id behind last_mid that was in use when it was looked for; 0: none, -1: look
        left = 0
        if journal:
            self.last_mid = journal.last_mid
            left = self._find_sent()
            self.below_stale = journal.live > left
            self.used_mid = -1
            self.queued = journal.live
            self.refill()
            if self.rows and self.states[0] & DUP:
                self.suspected = self.mids[0]
        return min(left, self.recorded_most)

    def _allocate(self, n):
        # The columns get n rows: all of them, or none if there is no memory.
        mids = array("H", bytes(2 * n))
        addresses = array("I", bytes(4 * n))
        states = bytearray(n)  # see states
        for i in range(self.rows):
            mids[i] = self.mids[i]
            addresses[i] = self.addresses[i]
            states[i] = self.states[i]
        self.addresses = addresses
        self.states = states
        self.mids = mids  # last: its length tells that there are rows for messages from the broker

    def _find_sent(self):
        journal = self.journal
        first = bytearray(1)
        n = aside = 0
        most = self.recorded_most
        if most and self.mode != CLEAN:
            most += journal.waiting
        while n < most:  # without those that are set aside
            address = journal.find(OUT, self.sent_below)
            if address < 0:
                break
            journal.read(address, 0, first)
            if journal.found_seq >= self.below and not first[0] & DUP:
                break
            self.sent_below = journal.found_seq + 1
            if journal.found_state & ASIDE:
                aside += 1
            else:
                n += 1
        return n + aside

    def _load_received(self):
        """The rows of messages of QoS 2 from the broker: those in the journal, and most_in others; twice most_in at
        most, since a restart must not give more space to a broker that never releases any."""
        journal = self.journal
        limit = self.limit
        most = self.most_in
        kept = 0
        at = journal.scan(IN, -1) if journal else -1
        while at >= 0:
            kept += 1
            at = journal.scan(IN, at)
        self._allocate(limit + (kept + most if kept <= most else kept))
        at = journal.scan(IN, -1) if kept else -1  # scanning a long journal takes an RP2040 a second
        while at >= 0:
            state = DELIVERED if journal.found_state & RELEASED else RECEIVED
            self.set_row(limit + self.rows_in, journal.found_mid, at, state)
            self.rows_in += 1
            at = journal.scan(IN, at)

    # --- Message IDs of a foreign session: see ForeignIds ---

    def suspect_ids(self, mid, n=65535):
        """The broker may hold n Message IDs, the next one is `mid`, for messages that the journal does not know."""
        self.foreign = ForeignIds(self, mid, n)

    def oldest_mid(self):
        """Returns the id of the oldest message, or that of the next one."""
        address = self.journal.find(OUT, 0)
        return self.last_mid % 65535 + 1 if address < 0 else self.journal.found_mid

    def _suspect_after_damage(self):
        """Nobody knows which ids are free, but those of messages that are still there, from the oldest to the last one:
        a PUBREL of ours would end their handshakes. Those of them that were not proven free before are not now."""
        oldest = self.oldest_mid()
        last = self.last_mid
        first = self.next_unproven
        n = 65535
        if (oldest - first) % 65535 >= self.unproven:
            if not self.unproven or (first - oldest) % 65535 > (last - oldest) % 65535:
                first = last % 65535 + 1
            n = (oldest - first) % 65535 or 65535
        self.suspect_ids(first, n)

    # --- CONNECT and CONNACK ---

    def resume(self):
        """Lets messages go, those in flight first [MQTT-4.4.0-1]. From now on the broker may know Message IDs of ours:
        the journal knows of the session before the first one leaves, and that the ids which a lost session received are
        forgotten before one comes anew. The record is written here, for all that this connection sends: where a message
        leaves, perhaps for a publish() within a callback, a board has too little stack left for that. Raises OSError if
        flash fails."""
        self.begin()
        journal = self.journal
        if journal:
            if self.quota:
                if self.below_stale:
                    self.below_stale = False
                    self.below = journal.next_seq
                    self.record_stale = True
                # Those that were set aside, or will be on this connection, can be in front of those in flight.
                aside = journal.live - self.rows - self.queued + self.too_long
                self.most = max(self.most, self.limit + aside)
            if self.record_stale or self.recorded_most < self.most:
                self.write_record(self.most)
            journal.commit()
        self.retransmit()
        self.resumed = DUP if self.quota else 1  # 0: the broker takes QoS 0 only
        self.busy = False

    def _begin_connection(self, now, clean_session, keepalive, user, password, will):
        self.begin()
        self.reset()
        self.holds_journal = True  # until the next reset()
        self.send(self.put_connect(clean_session, keepalive, user, password, will))
        self.clean = clean_session
        self.ended = ()
        self.code = 0
        self.restart_timers(now)
        if self.aside or self.strikes:
            self.make_aside().begin(self)
        if clean_session and self.record_at >= 0 and self.mode == PERSISTENT:
            self.mode = ENDING
            self.write_record(self.most)
        self.busy = False

    def put_connect(self, clean_session, keepalive, user, password, will):
        """Puts the CONNECT into the send buffer; connect_packet() tells the arguments. Returns its length.
        Raises ValueError if it does not fit."""
        level = self.protocol_level
        clean_start, blocks = self.connect_fields(clean_session, will)
        return connect_packet(self.out, level, self.client_id, clean_start, keepalive, user, password, will, blocks)

    def _receive_connack(self):
        """CONNACK arrived. Raises ProtocolError, OSError if flash fails."""
        # At level 3 byte 1 is reserved: the client goes on as if the broker knew the session.
        present = self.buf[self.at] if self.protocol_level > 3 else 0
        self.code = self.buf[self.at + 1]
        if self.code:  # a refusal, whatever else the packet says: a broker of level 5 alone has another one
            self.present = False
            self.count[counters.REFUSED] += 1
            return
        if present > 1 or self.n > 2 or (present and self.clean):
            raise ProtocolError("CONNACK with session present %d, code %d, length %d" % (present, self.code, self.n))
        self.present = present == 1
        none = not present and self.protocol_level > 3
        if self.is_lost(none):
            self.ended = self.end_lost_session()
            self.count[counters.COMPLETED] += len(self.ended)
        self.accept_connection(none)

    def is_lost(self, none):
        """True if the broker has lost our session; none: it says that it has none."""
        return none and not self.clean and self.mode != CLEAN and self.mode != ENDING

    def accept_connection(self, none):
        """CONNACK says that the connection stands. none: the broker says that it has no session of ours."""
        self.connected = True
        self.count[counters.CONNECTS] += 1
        mode = self.mode
        new = self.clean or none or mode == CLEAN
        if new and self.rows_in:  # the broker's ids begin anew
            for i in range(self.limit, self.limit + self.rows_in):
                self.mark_received(i, DONE)
            self.rows_in = 0
        self.old_received = self.rows_in
        if mode == CLEAN or (mode == ENDING and new):
            self.count[counters.DROPPED] += self.discard_sent()
        if new:
            self.foreign = None
            self.record_stale = self.record_stale or self.unproven > 0
            self.unproven = 0
        elif self.journal and self.record_at < 0:
            self.suspect_ids(self.oldest_mid())
        self.mode = CLEAN if self.clean else PERSISTENT
        if self.clean:
            # What left earlier belongs to sessions that have ended: from now on no more than the window can leave.
            self.most = self.limit
        self.record_stale = self.record_stale or self.mode != mode or self.record_at < 0

    # --- which message ends the connections? ---
    # Asked when one has ended before a message that was sent was acknowledged.
    #
    #   strikes
    #   0         `suspected` is the message that was the oldest when the last connection ended; or, after a restart,
    # which             may have left before
    #   1         twice in a row it was the same one. The next connections: when a PINGREQ was answered, so that neither
    # the             network nor a subscription is the reason, the oldest message is sent alone. Each that is
    # acknowledged is             followed by the next one that had left before; with the first one that had not, all go
    # again   2, 3, 4   so often, less one, a connection ended with a message alone; others between them are not
    # counted. With 4             it is set aside
    #
    # Until another message is acknowledged, the next one is suspected at once. The SESSION record has the strikes, up
    # to 3, before the next connection, and the journal a mark of what is set aside: a device that sleeps may have one
    # connection in each of its lives. A network that breaks often may set aside a message that is innocent: that costs
    # the message its place in the order.

    def _judge(self, error):
        """The connection ends with this error; rows are as it leaves them. Returns what connection_lost() does. Raises
        OSError if flash fails."""
        self.begin()
        journal = self.journal
        state = self.states[0]
        evident = state & STATE != SEND and state & STATE != REL and _is_about_messages(error)
        before = strikes = self.strikes
        anew = evident and state & TRIAL > 0 and journal.live > 1
        if anew:  # the next try, also after a restart, is for the one behind it
            self.again_mid = self.mids[0]
        most = 0xFFFF
        if evident and not state & TRIAL:
            if not strikes:
                strikes = int(self.suspected == self.mids[0])
            elif state & SUSPECT and strikes < _SURE:
                strikes += 1
            self.strikes = strikes
            self.suspected = self.mids[0]
            if before < _SURE:  # few connections find the message, whatever _slow_down() says
                most = 1 if strikes else 3
        if state & TRIAL or (state & SUSPECT and evident and strikes == _SURE):
            self.put_aside(0, getattr(error, "code", 0))
            if evident and state & TRIAL:
                self.aside.failed(self.now)
            self.refill()
        elif state & SUSPECT:
            self.states[0] &= ~SUSPECT
        if strikes > before or anew:
            try:
                self.write_record(self.recorded_most, anew)
            except OSError:  # no space for it
                if journal.failed:
                    raise
        journal.commit()
        self.busy = False
        return most

    # --- SUBSCRIBE and UNSUBSCRIBE ---

    def check_request(self, filters, identifier=0):
        """Raises ValueError if the buffer, or the broker, is too small for a request of these filters.
        [MQTT5-3.2.2-15]"""
        n = request_size(self.out, filters, (), self._request_properties(identifier))
        n += 2 if n < 128 else 3 if n < 16384 else 4
        if n > self.maximum_out:
            raise ValueError("request of %d bytes, the broker takes %d" % (n, self.maximum_out))

    def _request_properties(self, identifier):
        # Those of a SUBSCRIBE, or UNSUBSCRIBE: identifier 0.
        if not (identifier and getattr(self, "identifiers", False)):
            return self.no_properties
        return bytes((4, _SUBSCRIPTION, identifier & 0x7F | 0x80, identifier >> 7 & 0x7F | 0x80, identifier >> 14))

    def _make_request(self, filters, qos, identifier):
        # The one request under way: filters, their QoS, and properties.
        self.request_mid = self.last_mid = self.free_mid(0)
        if qos and any(q & 2 for q in qos):
            self.expect_qos_2()
        self.request = filters, qos, self._request_properties(identifier)
        self.request_due = 1

    def _put_request(self):
        """Puts the request into the send buffer. Returns its size."""
        self.clear()
        self.progress_at = self.now
        filters, qos, properties = self.request
        dup = self.request_due & 8
        self.request_due = 0
        return request_packet(self.out, self.request_mid, filters, qos, dup, properties)

    def _receive_suback(self, kind):
        """SUBACK or UNSUBACK arrived. Raises ProtocolError."""
        if self.mid != self.request_mid:
            self.count[counters.UNKNOWN_ACKS] += 1  # of a request that was repeated, or given up
            return
        filters, qos, _ = self.request
        ok = (kind == SUBACK) == (qos is not None)
        if ok and (kind == SUBACK or self.protocol_level == 5):
            codes = _CODES if self.protocol_level < 5 else _CODES_5[kind]
            self.granted = bytes(self.buf[self.at : self.at + self.n])
            ok = self.n == len(filters)
            for code in self.granted:
                ok = ok and code in codes
        if not ok:
            raise self.fault(kind, self.mid)
        self.request = None
        self.request_mid = 0
        self.request_due = 0

    # --- messages that are dropped: the journal is full, or their session has ended ---

    def _drop_for(self, size):
        """Drops messages when the journal is full: the oldest waiting ones, if that frees enough, else the new one.
        Returns True if the new one fits."""
        journal = self.journal
        excess = journal.excess(size)
        helps = self.when_full == "oldest" and self.can_drop(excess)
        while not journal.fits(OUT, size):
            if not self.count[counters.DROPPED]:
                self.notices += (OutboxFull("the journal is full: messages are dropped from now on, and counted"),)
            self.count[counters.DROPPED] += 1
            if not (helps and self.drop_oldest()):
                return False
        return True

    def can_drop(self, excess):
        """True if the messages that drop_oldest() would give up make `excess` bytes free."""
        journal = self.journal
        told = 0
        address = self._droppable() if excess > 0 else -1
        while address >= 0 and excess > 0:
            excess -= journal.cost(journal.found_len)
            behind = journal.found_seq + 1
            if behind <= self.seq:
                told += 1
            address = self._droppable(behind, told)
        return excess <= 0

    def drop_oldest(self):
        """Gives up the oldest message that was set aside, or is behind the window. Returns False if there is none that
        the broker has certainly never seen, or can have twice: half a handshake cannot be taken back."""
        address = self._droppable()
        if address < 0:
            return False
        behind = self.journal.found_seq + 1
        if behind <= self.seq:
            self.aside.drop(self, address)
            return True
        self._drop_waiting(address)
        # Nothing is left in front of the next one, so nobody need look there again.
        if self.seq >= self.sent_below:
            self.seq = behind
        else:
            self.sent_below = behind
        return True

    def _droppable(self, seq=0, told=0):
        # Returns the address of the first one from this number on. With rising numbers only: a journal is asked for
        # lower ones at the price of reading it from its beginning.
        journal = self.journal
        if self.aside:
            address = self.aside.droppable(self, seq, told)
            if address >= 0:
                return address
        address = journal.find(OUT, max(seq, self.seq, self.sent_below)) if self.queued else -1
        if address < 0 and self.queued:
            self.oldest()
        return address

    def _drop_waiting(self, address):
        self.journal.mark(address, DONE)
        self.queued -= 1

    def discard_sent(self):
        """Gives up the messages that were sent, or may have been: they belong to a session that
        ends [MQTT-3.1.2-6]. Those that never left stay. Returns how many went."""
        n = 0
        left = self.most + self.queued - self.journal.live  # behind the window
        for i in range(self.rows - 1, -1, -1):
            if i >= self.most:  # so many cannot have left, though a restart did not know which
                self.states[i] &= ~DUP
            elif self.states[i] & (STATE | DUP) != SEND:
                self.journal.mark(self.addresses[i], DONE)
                self.remove(i)
                n += 1
        while self.queued and left > 0:
            left -= 1
            address = self.oldest()
            if address < 0 or self.journal.found_seq >= self.sent_below:
                break
            self._drop_waiting(address)
            n += 1
        if self.aside:
            n += self.aside.discard(self)
        self.sent_below = 0
        self.refill()
        return n

    def end_lost_session(self):
        """The broker has lost the session. A PUBREL goes out once more; one that was already sent
        to a broker without the session, and not answered, has nobody left to answer it. Returns the Message IDs
        that end so: the broker has these messages since its PUBREC."""
        ended = []
        for i in range(self.rows - 1, -1, -1):
            if self.states[i] & GIVEN_UP:
                self.finish(i)
            elif self.states[i] & STATE >= REL:
                if self.states[i] & ALONE:
                    ended.append(self.mids[i])
                    self.finish(i)
                else:
                    self.states[i] |= ALONE
        return ended

    # --- a message that is given up, by the application or for another reason ---

    def give_up(self, address):
        """The message of the record at `address` is done, and the broker does not have it. Returns its sequence
        number."""
        journal = self.journal
        journal.mark(address, DONE)
        seq = journal.found_seq
        i = self.row_at(address)
        if i >= 0:
            self.remove(i)
            self.refill()
        elif seq >= self.seq:
            self.queued -= 1
        else:
            self.aside.forget(journal.found_mid)
        return seq

    def is_unsent(self, address):
        """True if the message of the record at `address`, which was just found, can not have been sent."""
        i = self.row_at(address)
        if i >= 0:
            return self.states[i] & (STATE | DUP) == SEND
        journal = self.journal
        if self.aside and journal.found_seq < self.seq:
            return not self.aside.may_have_left(self, journal.found_seq, journal.found_mid)
        return journal.found_seq >= self.sent_below

    def may_be_received(self, address):
        """True if the broker may hold the Message ID of this message of QoS 2: another message under it would count as
        the same one."""
        first = bytearray(1)
        self.journal.read(address, 0, first)
        return first[0] & 4 > 0 and not self.is_unsent(address)

    def find_message(self, mid):
        """Returns the address of the pending message with this Message ID, -1 if there is none."""
        at = self.journal.checkpoints.find_mid(mid) if hasattr(self.journal, "checkpoints") else -2
        if at == -2:
            at = self.journal.scan(OUT, -1)
            while at >= 0 and self.journal.found_mid != mid:
                at = self.journal.scan(OUT, at)
        return at

    def discard_message(self, mid, seq=-1):
        """The application gives up message `mid`, of sequence number `seq` if that is known, else -1. Returns True if
        it was pending; None: it is being written in pieces. A PUBREL ends what the broker may know of its Message ID;
        that it was given up is not known after a restart, nor of a message that waits: then the end of the handshake
        counts as completed, too. Raises OSError if flash fails."""
        journal = self.journal
        at = -1
        if journal:
            at = self.find_message(mid) if seq < 0 else journal.find(OUT, seq)
            if at >= 0 and journal.found_mid != mid:
                at = -1
        i = self.row_at(at)
        if at < 0 or (i >= 0 and self.states[i] & GIVEN_UP):
            return False
        if self.out_left and self.rest is None and self.out_address == at:
            return None
        self.begin()
        self.count[counters.DROPPED] += 1
        if journal.found_state & RELEASED or self.may_be_received(at):
            self._release_only(at, i)
        else:
            if i >= 0 and self.states[i] & STATE == ACK and self.protocol_level == 5:
                self.owed += 1
            if not self.connected and (i < self.most if i >= 0 else journal.found_seq < self.sent_below):
                self.most = max(self.most - 1, 0)  # of those behind it, one less can have left
            self.give_up(at)
        journal.commit()
        self.busy = False
        return True

    def _release_only(self, address, i):
        # The broker may have the message of this record, which was just found, and of row i: only its PUBREL goes.
        journal = self.journal
        mid = journal.found_mid
        aside = journal.found_seq < self.seq
        journal.mark(address, RELEASED)
        if i >= 0:
            state = self.states[i]
            # A PUBREL follows the PUBREC [MQTT-4.3.3-1].
            self.states[i] = GIVEN_UP | (REL | DUP if state & STATE == SEND else state)
        elif aside and self.rows < self.limit:
            self.aside.forget(mid)
            self.set_row(self.rows, mid, address, GIVEN_UP | REL | DUP)
            self.rows += 1
        self.waiting = True

    # --- messages that the journal has lost, or that are none ---

    def is_publish(self, at):
        """True if the record just found is a PUBLISH of QoS 1 or 2, of its Message ID, with a trailer at most."""
        buf = bytearray(7)
        left = self.journal.found_len
        i = self.journal.read(at, 0, buf)
        digits = 1
        while digits < 4 and buf[i + digits] & 0x80:
            digits += 1
        if left < 5 + digits or buf[i] >> 4 != PUBLISH or buf[i] & 6 not in (2, 4) or buf[i + digits] & 0x80:
            return False
        topic = buf[i + 1 + digits] << 8 | buf[i + 2 + digits]
        size = length(buf, i)
        if size < 5 + digits + topic or not size <= left <= size + _MOST_TRAILER:
            return False
        i = self.journal.read(at, 3 + digits + topic, buf)
        return buf[i] << 8 | buf[i + 1] == self.journal.found_mid

    def _drop_unreadable(self):
        """Each live OUT record is a whole PUBLISH, or no use to anybody, since a broker would close each connection:
        such a one is dropped."""
        at = self.journal.scan(OUT, -1)
        while at >= 0:
            if self.is_publish(at):
                at = self.journal.scan(OUT, at)
            else:
                found = self.journal.found_mid, self.journal.found_seq
                if found not in self.journal.lost:  # else the flash failed when it was found before
                    self.journal.lost.append(found)
                self._drop_lost(at)
                at = self.journal.scan(OUT, -1)

    def _drop_lost(self, at):
        # The live record at address `at` is whole, and no use: it counts as damaged, durably before it is gone, so that
        # it counts twice rather than never.
        owner = self.journal.owner
        place = self.journal.owner = _Place(at)
        try:
            self.journal.damaged += 1
            self.journal._begin()
            self.journal._dirty = 1
            try:
                self.journal._make_space(NOTES)
                self.journal._note()
            except OutboxFull:
                pass  # the next NOTEs tell it
            self.journal._sync()
            self.journal.failed = False
            self.journal.mark(place.at, DONE)
            self.journal.commit()
        finally:
            self.journal.owner = owner

    def tell_lost(self, lost=()):
        """Counts the messages, and tells the application, as far as anything is known of them. Without any: numbers
        were passed over, of which the newest message may have had one."""
        self.count[counters.DROPPED] += len(lost)
        self.count[counters.DAMAGED] += len(lost) or 1
        self.lost += len(lost) or 1
        known = [message for message in lost if message][:_MOST_NOTICES]
        for mid, seq in known:
            self.notices += (MessageDamaged(1, mid, seq),)
        if len(lost) > len(known) or not lost:
            self.notices += (MessageDamaged(len(lost) - len(known)),)

    # --- messages that the broker has not completed ---

    def message_at(self, address):
        """Returns (Message ID, sequence number, topic, size of the packet in bytes, QoS) of the record at `address`,
        which was just found. Raises OSError if it was damaged."""
        journal = self.journal
        journal.check(address)
        mid = journal.found_mid
        seq = journal.found_seq
        start = bytearray(_START)
        at = journal.read(address, 0, start)
        size = packet.length(start, at)
        qos = start[at] >> 1 & 3
        topic = at + 1
        while start[topic] & 0x80:
            topic += 1
        topic += 1
        name = bytearray(start[topic] << 8 | start[topic + 1])
        journal.read(address, topic + 2 - at, name)
        size = self.packet_size(address, size)
        return mid, seq, str(name, "utf-8"), size, qos

    def next_message(self, seq):
        """Returns the pending message of this sequence number, or the next one behind it; None: there is none."""
        journal = self.journal
        address = journal.find(OUT, seq) if journal else -1
        if address < 0:
            return None
        found = self.message_at(address)
        if self.row_at(address) >= 0:
            return found + ("in flight",)
        aside = found[1] < self.seq or journal.found_state & ASIDE
        return found + ("set aside" if aside else "waiting",)

    def _find_behind(self, mid):
        """True if a message with this Message ID is behind the window. See Window.is_pending()."""
        journal = self.journal
        if mid < 1 or not journal or journal.live <= self.rows:
            return False
        at = self.find_message(mid)
        if at >= 0:
            self.asked = mid
            journal.watched = at
        return at >= 0

    def make_aside(self):
        """Returns the SetAside, which is made with the first call."""
        self.aside = self.aside or SetAside()
        return self.aside

    # --- messages that are set aside: see SetAside ---

    def _next_in_order(self, address):
        """The message behind the window that was just found at `address` was set aside in an earlier life, or -1: none
        was found. Returns the address of the next one that was not set aside, -1: there is none."""
        journal = self.journal
        while address >= 0 and journal.found_state & ASIDE:
            self.make_aside().left = journal.live
            self.queued -= 1
            self.seq = journal.found_seq + 1
            address = journal.find(OUT, self.seq)
        if address < 0 and self.queued:
            self._none_waits()
        return address

    def _none_waits(self):
        # Messages were counted behind the window, and none is there: sectors that the mount has left out are counted
        # now. All records without a row are copies of messages that had their turn, on a flash that somebody restored
        # in part; where some were set aside nobody can tell those from copies.
        journal = self.journal
        self.count_rest_of_journal()
        self.queued = 0
        if self.aside:
            return
        at = journal.scan(OUT, -1)
        while at >= 0:
            if self.row_at(at) < 0:
                journal.mark(at, DONE)
            at = journal.scan(OUT, at)
        if journal.live > self.rows:
            self.make_aside().left = 1  # looks for it when all else is completed

    def count_rest_of_journal(self):
        """Counts what a mount has left out: until then too many messages may count as live."""
        if hasattr(self.journal, "checkpoints"):
            self.journal.checkpoints.count_rest()

    def is_too_long(self, address):
        """True if this connection does not take the message of the record at `address`, which was just found."""
        most = self.maximum_out
        if most >= self.journal.largest + 2:
            return False
        return self.packet_size(address, 0) > most

    def put_aside(self, i, code):
        """The message of row i is set aside, for a reason with this code of MQTT 5; 0: the connection ended."""
        address = self.addresses[i]
        state = self.states[i]
        self.make_aside().remove(self, i)
        if not state & TRIAL:  # else the journal has it
            released = state & STATE >= REL or state & GIVEN_UP
            self.journal.mark(address, ASIDE | RELEASED if released else ASIDE)
        if not state & (TRIAL | GIVEN_UP):  # else it was told
            self.tell_set_aside(address, code)

    def tell_set_aside(self, address, code, kept=True):
        """The application is told of the message of the record at `address`, which was just found."""
        if kept:
            self.count[counters.SET_ASIDE] += 1
        self.notices += (MessageSetAside(code, kept, *self.message_at(address)),)


def connect_packet(
    buf, protocol_level, client_id, clean_session, keepalive, user=None, password=None, will=None, blocks=(b"", b"")
):
    """Writes a CONNECT. All strings are bytes; will is (topic, payload, qos, retain) or None; blocks: the properties
    of level 5, of the packet and of the will. Returns its length. [MQTT-3.1]"""
    fields = []
    flags = 2 if clean_session else 0
    if will:
        fields += will[:2]
        flags |= 4 | will[2] << 3 | (32 if will[3] else 0)
    if user is not None:
        fields.append(user)
        flags |= 0x80
    if password is not None:
        fields.append(password)
        flags |= 0x40
    name = b"MQIsdp" if protocol_level == 3 else b"MQTT"
    remaining = len(name) + 8 + len(client_id) + len(blocks[0]) + len(blocks[1])
    for field in fields:
        remaining += 2 + len(field)
    if remaining + 5 > len(buf):
        text = "buffer: %d bytes at least, CONNECT takes half of them with its user, password and will"
        raise ValueError(text % (2 * (remaining + 5)))
    i = put_string(buf, begin(buf, 0x10, remaining), name)
    buf[i] = protocol_level
    buf[i + 1] = flags
    buf[i + 2] = keepalive >> 8
    buf[i + 3] = keepalive & 0xFF
    i = copy(buf, i + 4, blocks[0])
    i = copy(buf, put_string(buf, i, client_id), blocks[1])
    for field in fields:
        i = put_string(buf, i, field)
    return i


def _is_about_messages(error):
    # True if a message may be the reason.
    return error and not (isinstance(error, MemoryError) or getattr(error, "code", 0) in _OTHERS)


# The broker has it for our client id, and the journal does not know it. The broker
# may hold some of its ids as those of QoS 2 messages, and would take new messages under these ids for repetitions. A
# PUBREL frees an id [MQTT-4.3.3-2]. So before a QoS 2 message is sent under an id that is not proven free, PUBRELs are
# sent for it and some ids behind it.


class ForeignIds:
    """The ids that are not proven free: n of them, from `mid` on, in the order in which they are given. The SESSION
    record has both numbers."""

    def __init__(self, session, mid, n):
        self._session = session
        session.record_stale = session.record_stale or session.unproven != n or session.next_unproven != mid
        session.next_unproven = mid
        session.unproven = n
        self._proven = 0  # so many of the first are free; the record does not have it yet
        self._wanted = 0  # the id under which a message waits
        self.reset()

    def reset(self):
        """The connection ended."""
        self.asked = 0  # a bit for each PUBREL that is unanswered, from that of next_unproven on
        self.pinged = False  # a PINGREQ was sent behind them

    def is_unproven(self, mid):
        """True if the broker may hold this id."""
        return (mid - self._session.next_unproven) % 65535 < self._session.unproven

    def write_probes(self, buf, wanted):
        """Puts PUBRELs for the next ids into buf: a message waits for its id `wanted`. Returns their size in bytes."""
        self._wanted = wanted
        n = 0
        mid = self._first()
        for _ in range(self._next()):
            n = ack(buf, PUBREL, mid, 0, n)
            mid = mid % 65535 + 1
        self.asked = (1 << n // 4) - 1
        self.pinged = False
        return n

    def is_answer(self, mid):
        """A PUBCOMP arrived. Returns True if it answers one of the PUBRELs."""
        k = (mid - self._first()) % 65535
        if k >= _PROBES or not self.asked >> k & 1:
            return False
        self.asked &= ~(1 << k)
        if not self.asked:
            self._prove()
        return True

    def ping_answered(self):
        """A PINGRESP arrived: the broker has received what was sent before its PINGREQ, and does not answer PUBRELs for
        ids that it does not hold, or will later. Returns True if some were unanswered."""
        unanswered = self.asked > 0 and self.pinged
        if unanswered:
            self._prove()
        return unanswered

    def _first(self):
        return (self._session.next_unproven + self._proven - 1) % 65535 + 1

    def _next(self):
        return min(_PROBES, self._session.unproven - self._proven)

    def _prove(self):
        session = self._session
        self._proven += self._next()
        self.asked = 0
        if (self._wanted - session.next_unproven) % 65535 >= self._proven:
            return
        session.next_unproven = self._first()
        session.unproven -= self._proven
        self._proven = 0
        session.write_record(session.recorded_most)  # before a message leaves under one of these ids


# Messages are set aside, so that one message blocks nothing:
#   why                                                   who finds it
#   it is too long for this connection [MQTT5-3.2.2-15]   mqtt5, and oldest() below for those behind the window
#   it was too long: DISCONNECT with 0x95                 mqtt5
#   it ends each connection                               _judge() above
#
# Such a message stays in the journal, keeps its Message ID, and loses its place in the order: it is a live record
# without a row, whose number is below that of the messages behind the window. The journal has a mark of that, so it is
# set aside after a restart, too. It is tried again when all other messages are completed:
#
#   it never left         as soon as a connection takes its size
#   it may have left      when a pause has passed, which doubles each time that it fails
#
# Then it has a row with the mark TRIAL, and if the connection ends before it is acknowledged, it is set aside again.


class SetAside:
    """What a session knows of the messages that were set aside, beside their records."""

    def __init__(self):
        self.sent = []  # Message IDs of those that may have left in the session that the broker has
        self.all_sent = False  # there were more
        self.waits = []  # Message IDs of those that left in this life, in any session: they wait for the pause
        self.all_wait = False  # there were more
        self.left = 0  # so many are to be looked at
        self.again = False  # also those that may have left may be tried
        self._alone = 0  # messages that left on connections which ended too early: so many are sent alone
        self._seq = -1  # the next one to be looked at has this number, or a higher one; -1: nobody knows yet
        self.kept_below = 0  # a full journal drops none with lower numbers
        self.pause = 0  # ms from `since` on until all are looked at; 0: none has ended a connection
        self.since = 0

    def may_have_left(self, session, seq, mid):
        """True if the message that was set aside with this number and Message ID may have left."""
        return seq < session.sent_below or self.all_sent or mid in self.sent

    def forget(self, mid):
        """The message with this Message ID is not set aside any more."""
        for mids in (self.sent, self.waits):
            if mid in mids:
                mids.remove(mid)

    def session_lost(self):
        """The broker knows none of them."""
        self.sent = []
        self.all_sent = False

    def begin(self, session):
        """A connection begins: what was set aside may be tried on it, behind all others, and a message that is
        suspected is sent alone."""
        for i in range(session.rows - 1, -1, -1):
            if session.states[i] & TRIAL:  # it was tried on a connection that ended in order
                self.remove(session, i)
        self.left = session.journal.live
        self.again = not self.pause
        self._alone = 0
        session.reach = ANY
        if session.strikes and session.rows:
            for i in range(session.rows):
                if session.states[i] & (STATE | DUP) != SEND or session.mids[i] == session.suspected:
                    self._alone += 1
            if self._alone:
                session.reach = ASK
            else:
                self._end_suspicion(session)

    def retry(self, session):
        """They are tried again as soon as all else is completed."""
        self.left = session.journal.live
        self.again = True

    def failed(self, now):
        """A message ended the connection. Nothing that may have left is tried for a while."""
        self.pause = min(2 * self.pause, _LONGEST_PAUSE_MS) or _PAUSE_MS
        self.since = now

    def droppable(self, session, seq, told):
        """Returns the address of the first message of this number, or a higher one, that a full journal may drop, -1:
        there is none, or the application is to be told of others first, of which `told` are not noted yet."""
        journal = session.journal
        if len(session.notices) + told >= _NOTICES:
            return -1
        seq = first = max(seq, self.kept_below)
        while seq < session.seq:
            address = journal.find(OUT, seq)
            if address < 0 or journal.found_seq >= session.seq:
                break
            if session.row_at(address) < 0 and not (journal.found_state & RELEASED or session.may_be_received(address)):
                return address
            seq = journal.found_seq + 1
            if first == self.kept_below:
                self.kept_below = first = seq
        return -1

    def drop(self, session, address):
        """The full journal drops this message, which was just found."""
        session.tell_set_aside(address, 0, False)
        session.give_up(address)

    def discard(self, session):
        """A session ends: gives up those that may have left. Returns how many."""
        journal = session.journal
        n = 0
        at = journal.scan(OUT, -1)
        while at >= 0:
            seq = journal.found_seq
            if seq < session.seq and session.row_at(at) < 0:
                if journal.found_state & RELEASED or self.may_have_left(session, seq, journal.found_mid):
                    journal.mark(at, DONE)
                    n += 1
            at = journal.scan(OUT, at)
        self.session_lost()
        return n

    def remove(self, session, i):
        """Row i is over, and its message is set aside."""
        mid = session.mids[i]
        if session.states[i] & (STATE | DUP) != SEND:
            if mid not in self.sent:
                self.all_sent = not _add(self.sent, mid) or self.all_sent
            if mid not in self.waits:
                self.all_wait = not _add(self.waits, mid) or self.all_wait
        session.remove(i)
        self.kept_below = 0

    def oldest(self, session, oldest):
        """Session5.oldest(), while messages behind the window are too long for this connection: they are set aside.
        oldest: of Session."""
        while True:
            address = oldest()
            if address < 0 or not session.too_long or session.journal.found_state:
                return address  # past its PUBREC it is its PUBREL that goes
            if not session.is_too_long(address):
                return address
            if len(session.notices) >= _NOTICES:
                return -1  # until the application was told of these
            session.too_long -= 1
            session.queued -= 1
            session.seq = session.journal.found_seq + 1
            session.journal.mark(address, ASIDE)
            session.tell_set_aside(address, TOO_LONG)

    def look(self, session):
        """Before messages are sent: which may go."""
        if session.reach != ANY:
            self._send_alone(session)
        if not session.rows:
            if session.queued:
                session.refill()  # the application has been told, see oldest()
            elif session.journal.live:
                self._try_next(session)

    def _send_alone(self, session):
        # Each message that left on connections which ended too early is sent alone, behind a PINGREQ that was answered.
        if session.reach == ASK:
            session.reach = 0
            session.ping_requested = True
            return
        sent = session.reach > 0
        if sent and session.rows and session.states[0] & SUSPECT:
            if not passed(session.now, session.progress_at, _ALONE_MS):
                return
            self._alone = 0
        elif sent:  # it was acknowledged
            self._alone -= 1
        elif session.pinging or session.request is not None:
            return
        session.waiting = True
        if self._alone > 0 and session.rows:
            if sent:
                session.strikes = 1
            session.suspected = session.mids[0]
            session.progress_at = session.now
            session.reach = 1
            session.states[0] |= SUSPECT
        else:
            self._end_suspicion(session)
            session.reach = ANY

    def _end_suspicion(self, session):
        session.strikes = session.suspected = 0
        session.record_stale = True

    def _recount(self, session):
        # None is there, though some are counted. Where sectors that the mount has left out are not all of them, a power
        # cut had left a state half written, which read differently then: the mount that follows counts anew.
        self.left = 0
        session.count_rest_of_journal()
        if session.journal.live:
            session.journal._fail("a record of the journal is gone")

    def _try_next(self, session):
        # All else is completed: each live record is one that was set aside.
        journal = session.journal
        if not self.left and self.pause and passed(session.now, self.since, self.pause):
            self.since = session.now
            self.retry(session)
            if session.clock:
                session.clock.drop_expired(session)
        self.left = min(self.left, journal.live)
        if self._seq < 0:
            self._seq = journal.found_seq + 1 if session.find_message(session.again_mid) >= 0 else 0
        while self.left:
            address = journal.find(OUT, self._seq)
            if address < 0:
                self._seq = 0
                address = journal.find(OUT, 0)
            if address < 0:
                self._recount(session)
                return
            self.left -= 1
            self._seq = journal.found_seq + 1
            mid = journal.found_mid
            released = journal.found_state & RELEASED
            left = released or self.may_have_left(session, journal.found_seq, mid)
            waits = left or self.all_wait or mid in self.waits
            if waits and not self.again or not released and session.is_too_long(address):
                continue
            self.forget(mid)
            session.set_row(session.rows, mid, address, (REL if released else SEND) | TRIAL | (DUP if left else 0))
            session.rows += 1
            session.waiting = True
            return


def _add(mids, mid):
    # Returns False if there is no space for it.
    some = len(mids) < _SENT
    if some:
        mids.append(mid)
    return some


class _Place:
    # Where a record is, while others are copied.

    def __init__(self, at):
        self.at = at

    def moved(self, old, new):
        if self.at == old:
            self.at = new

    def can_spare(self, at):
        return False
