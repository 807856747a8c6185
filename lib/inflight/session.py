# The session: what this client and its broker owe each other. Bytes and time values go in,
# packets to write and events come out; there is no socket and no clock here.
#
# Theory of operation
# -------------------
# The owner of the connection reads into decoder.view, says so with fed(), calls receive() until it returns 0, and
# between any two of these calls writes what output() offers until that returns 0. A PUBLISH
# that receive() returns is handed to the application, then acknowledged by taken(). Since
# output() is emptied between any two packets received, one answer waits at most, and answers
# leave in the order of their causes [MQTT-4.6.0-2, 4.6.0-3, 4.6.0-4].
#
#   state         receive()                                        clause
#   reset         nothing is read
#   connecting    CONNACK 0: connected; 1-5: refused; other: error MQTT-3.1.0-1, 3.2.0-1
#   connected     PUBLISH: Inbound, deliver, PUBACK or PUBREC      MQTT-3.3.4-1
#                 PUBREL: Inbound, PUBCOMP                         MQTT-4.3.3-2
#                 PUBACK, PUBREC, PUBCOMP: the table of Outbound   MQTT-4.3.2-1, 4.3.3-1
#                 SUBACK, UNSUBACK: of the one request under way,
#                 of any other: counted                            MQTT-3.8.4-2, 3.10.4-4
#                 PINGRESP                                         MQTT-3.12.4-1
#                 CONNACK: error                                   MQTT-3.2.0-1
#
# What outlives the power beside messages and received ids stands in the one SESSION record of the
# journal: FORMAT.md tells its body. Its mode says what the next CONNACK means for what was sent:
#
#   mode          then CONNACK says            what was sent, ids received   clause
#   PERSISTENT    session present, or level 3  goes on                       MQTT-3.1.2-4, 4.4.0-1
#                 none present                 sent again; forgotten         MQTT-3.2.2-3
#   ENDING        clean session                given up; forgotten           MQTT-3.1.2-6
#                 session present, or level 3  goes on
#                 none present                 given up; forgotten
#   CLEAN         anything                     given up; forgotten           MQTT-3.1.2-6
#   UNSURE        anything                     as PERSISTENT: never given up
#
# A CONNECT with clean session leaves PERSISTENT behind for ENDING, its CONNACK makes it CLEAN;
# any other CONNACK makes it PERSISTENT.
#
# A session that the broker has, and this journal does not know, may hold Message IDs of QoS 2 that
# would swallow new messages. A PUBREL frees an id [MQTT-4.3.3-2], so before a QoS 2 message leaves
# under an id that is not proven free, PUBRELs go out for it and some ids behind it.

import struct
from array import array
from errno import ECONNABORTED, ENOBUFS

import inflight.packet as packet

from .journal import DONE, OUT, SESSION, OutboxFull  # isort: skip (from here: each import within an import takes stack)
from .inbound import AGAIN, DUPLICATE, Inbound
from .outbound import DUP, ERROR, FINISH, IGNORED, REL, REPEAT, STATE, UNKNOWN, Outbound
from .port import const, copying, passed, ticks_diff

# Indices of Session.count.
ACCEPTED = const(0)
SENT = const(1)
RESENT = const(2)
COMPLETED = const(3)
DROPPED = const(4)
RECEIVED = const(5)
DUPLICATES = const(6)
REDELIVERED = const(7)
UNKNOWN_ACKS = const(8)
PINGS = const(9)
CONNECTS = const(10)
OUTAGES = const(11)
REFUSED = const(12)
PROTOCOL_ERRORS = const(13)
HANDLER_ERRORS = const(14)
TOO_LONG = const(15)
UNHANDLED = const(16)
COUNTERS = (
    "accepted sent resent completed dropped received duplicates redelivered unknown_acks pings connects outages"
    " refused protocol_errors handler_errors too_long unhandled"
)

PERSISTENT = const(0)
ENDING = const(1)
CLEAN = const(2)
UNSURE = const(3)

_FORM = "<BHIHH"  # of a SESSION record, before the client id: mode and serial, most, below, next to prove, unproven
_FORM_SIZE = const(11)
_PACE = const(256)  # bytes of a long message, at least, in ten time-outs
_PROBES = const(16)  # PUBRELs in one write; the smallest buffer has room for them


class Session:
    """One session of one client with one broker, kept in `journal` (None: nothing is sent above
    QoS 0, and ids of received QoS 2 messages stay in RAM). The first half of `buffer` receives,
    the second sends. `window` and `inbound` bound the messages in flight each way; keepalive is
    the longest silence in ms, retry the first interval of repeating in ms (0: never), timeout how many
    ms an answer may take.

    Raises ValueError if the journal serves another client id [MQTT-3.1.3-2], or is smaller than half the buffer."""

    def __init__(
        self, journal, buffer, client_id, level=4, window=8, inbound=20, keepalive=0, retry=0, drop=None, timeout=0
    ):
        half = len(buffer) // 2
        self.out = self.tx = memoryview(buffer)[half:]  # what to write: `out` from `out_at` on
        self.out_at = 0
        if journal and len(self.tx) > journal.size:
            raise ValueError("buffer: twice the %d bytes of the journal at most" % journal.size)
        self.decoder = packet.Decoder(memoryview(buffer)[:half], level)
        self.count = array("I", bytes(68))
        self.present = False  # session present of the last CONNACK
        self.code = 0  # its return code
        self.granted = b""  # return codes of the last SUBACK
        self.deliver = False  # the application is owed the piece that receive() returned
        self.redelivered = False  # it may have had that message before, when power was cut
        self.completed = 0  # Message ID that receive() completed last; its reader sets it back
        self.journal = journal
        self.client_id = client_id
        self.keepalive = keepalive
        self.timeout = timeout
        self._retry = retry
        self.tick = min(1000, keepalive * 2 // 15 or 1000, retry or 1000)  # its timers are looked at this often, ms
        self._drop = drop
        self._window = window
        self._limit = inbound
        self.name = None  # the topic that is published to again and again, if its owner says so
        self.at = self.n = 0  # where the payload of the PUBLISH in tx begins, and ends
        self.busy = False  # an operation is under way, or one that did not come to its end left things half done
        self.reset()
        self._load()

    def recover(self):
        """After an operation that was interrupted (`busy` stands), also by flash that failed: the journal is mounted
        again in place, and all that it knows is read anew. The connection is over. Raises OSError."""
        self.reset()
        if self.journal:
            self.journal.recover()
            self._load()
        self.busy = False

    def _begin(self):
        # What changes the session is whole when `busy` is off again; whatever interrupts it leaves it on.
        if self.busy:
            raise OSError(ECONNABORTED, "an operation was interrupted")
        self.busy = True

    def _load(self):
        # Builds what the journal knows, at a start and after it was mounted again in place.
        journal = self.journal
        self._serial = 0
        self._place = -1  # of the SESSION record
        self._mode = PERSISTENT
        self._most = self._below = 0
        self._probe = self._unproven = 0  # the next id to prove; so many are not proven free, from there on
        self._stale = False  # the record does not tell all this
        if journal:
            self._read_record()
        self._outbound = Outbound(journal, self._window, self._below, self._most)
        self._inbound = Inbound(journal, self._limit)
        if journal:
            journal.owner = self
            if self._stale:
                # But for those of its own messages: a PUBREL of ours would end their handshakes.
                last = self._outbound.last_mid
                self._be_foreign(last % 65535 + 1, (self._outbound.oldest_mid() - last - 1) % 65535 or 65535)
                self._write_record()

    def _read_record(self):
        journal = self.journal
        at = journal.scan(SESSION, -1)
        while at >= 0:
            self._take_record(at, journal.found_len)
            at = journal.scan(SESSION, at)
        if self._place < 0 and (journal.damaged or journal.skipped):
            # Lost with what was damaged: all can have left, and nothing is given up.
            self._mode = UNSURE
            self._most = 65535
            self._below = journal.next_seq
            self._stale = True

    def _take_record(self, at, n):
        body = bytearray(n)
        self.journal.read(at, 0, body)
        if n < _FORM_SIZE or body[_FORM_SIZE:] != self.client_id:
            raise ValueError("the journal serves another client id: use that one, or format the journal")
        serial = body[0] >> 4
        if self._place >= 0 and (serial - self._serial & 15) > 8:
            self.journal.mark(at, DONE)  # power was cut before it was marked
            return
        if self._place >= 0:
            self.journal.mark(self._place, DONE)
        self._place = at
        self._serial = serial
        self._mode = body[0] & 3
        _, self._most, self._below, self._probe, self._unproven = struct.unpack_from(_FORM, body, 0)

    def _write_record(self):
        # The new record is durable before the old one is done.
        journal = self.journal
        self._stale = False
        self._serial = self._serial + 1 & 15
        self._most = min(max(self._window, self._outbound.held), 65535)
        body = struct.pack(_FORM, self._mode | self._serial << 4, self._most, self._below, self._probe, self._unproven)
        body += self.client_id
        try:
            place = journal.append(SESSION, 0, body, len(body))
        except OutboxFull as e:
            raise OSError(ENOBUFS, str(e))
        old = self._place
        self._place = place
        journal.commit()
        if old >= 0:
            journal.mark(old, DONE)

    @property
    def known(self):
        """True if the journal knows its session."""
        return self._place >= 0

    def moved(self, old, new):
        """The journal copied a record to another place."""
        self._outbound.moved(old, new)
        self._inbound.moved(old, new)
        if self._place == old:
            self._place = new
        if self._fresh == old:
            self._fresh = new
        if self._rest_place == old:
            self._rest_place = new

    @property
    def pending(self):
        """Messages of QoS 1 and 2 that the broker has not completed."""
        return self._outbound.rows + self._outbound.queued

    def is_pending(self, mid):
        """True if the message of QoS 1 or 2 with this Message ID has not been completed."""
        return self._outbound.is_pending(mid)

    @property
    def blocked(self):
        """True if messages wait because the window is full."""
        return self._outbound.queued > 0

    # --- the connection ---

    def reset(self):
        """The connection is gone, or was never there. What is in flight stays in the journal."""
        self.connected = False
        self._resumed = False
        self.decoder.reset()
        self.head = 0  # first byte of a PUBLISH whose head still stands in tx: the next one may be like it
        self._clean = False
        self._reply = 0  # the acknowledgement that is due: type, DUP of a PUBREL, Message ID
        self._ready = 0  # bytes of a packet in tx that wait to be written
        self._fresh = -1  # place in the journal of the PUBLISH of n bytes in tx
        self._left = 0  # bytes of a long packet still to be written, from _rest
        self._rest = None  # a payload of the caller, or None: the record at _rest_place
        self._rest_place = self._rest_at = 0
        self._sub = self._sub_qos = None  # filters asked for
        self._sub_mid = 0
        self._sub_due = False
        self._sub_dup = 0
        self._ping = False
        self._ping_at = -1  # when the PINGREQ left that is unanswered
        self._asked = 0  # PUBRELs that prove ids are unanswered, a bit each; nothing is published meanwhile
        self._pinged = False  # since then
        self._reasked = False  # some were repeated, and may be answered twice
        self._now = self._last_out = self._last_in = self._progress = 0
        self._came = self._long_at = 0  # bytes of a long message that came since, and when it was so many
        self._pause = self._retry

    def lost(self):
        """The connection broke."""
        self.count[OUTAGES] += 1
        self.reset()

    def connect(self, now, clean, keepalive, user, password, will):
        """A connection stands, CONNECT is its first packet [MQTT-3.1.0-1]; keepalive in seconds,
        strings as bytes. Raises ValueError if the packet does not fit the buffer, OSError if flash fails."""
        self._begin()
        self.reset()
        self._ready = packet.connect(
            self.tx, self.decoder.level, self.client_id, clean, keepalive, user, password, will
        )
        self._clean = clean
        self.code = 0
        self._last_out = self._last_in = self._long_at = now
        if clean and self.known and self._mode == PERSISTENT:
            self._mode = ENDING
            self._write_record()
        self.busy = False

    def _connack(self):
        d = self.decoder
        # At level 3 byte 1 is reserved: the client goes on as if the broker knew the session.
        present = d.buf[d.at] if self.decoder.level > 3 else 0
        self.code = d.buf[d.at + 1]
        if present > 1 or self.code > 5 or (present and (self.code or self._clean)):
            raise packet.ProtocolError("CONNACK %d %d" % (present, self.code))
        self.present = present == 1
        if self.code:
            self.count[REFUSED] += 1
            return
        self.connected = True
        self.count[CONNECTS] += 1
        self._begin_session(not present and self.decoder.level > 3)

    def _begin_session(self, none):
        # `none`: the broker says that it has none of ours.
        mode = self._mode
        new = self._clean or none or mode == CLEAN
        if new:
            self._inbound.forget()
        if mode == CLEAN or (mode == ENDING and new):
            self.count[DROPPED] += self._outbound.discard()
        elif none and not self._clean:
            self._outbound.forgotten()
        if new and self._unproven:
            self._unproven = 0
            self._stale = True
        elif not (new or self.known) and self.journal:
            self._be_foreign(self._outbound.oldest_mid())
        self._mode = CLEAN if self._clean else PERSISTENT
        self._stale = self._stale or self._mode != mode or not self.known

    def resume(self):
        """Lets messages go, those in flight first [MQTT-4.4.0-1]. From now on the broker may know
        Message IDs of ours: the journal knows of the session before the first one leaves. Raises
        OSError if flash fails."""
        self._begin()
        if self.journal and self._stale:
            self._write_record()
        self._outbound.again()
        self._resumed = True
        self.busy = False

    # --- a session that this journal does not know ---

    def _be_foreign(self, mid, n=65535):
        # n ids from `mid` on are not proven free.
        self._probe = mid
        self._unproven = n

    def _is_unproven(self, mid):
        return (mid - self._probe) % 65535 < self._unproven

    def _send_probes(self):
        # Ids behind the one that is wanted come at no cost.
        self._fresh = -1
        self.head = self.out_at = 0
        self._pinged = False
        self._progress = self._now
        n = 0
        mid = self._probe
        for _ in range(min(_PROBES, self._unproven)):
            n = packet.ack(self.tx, packet.PUBREL, mid, 0, n)
            mid = mid % 65535 + 1
        self._asked = (1 << n // 4) - 1
        return n

    def _is_proof(self, mid):
        # True if this PUBCOMP is the answer to a PUBREL of ours that proves an id.
        k = (mid - self._probe) % 65535
        if k >= _PROBES or not self._asked >> k & 1:
            return False
        self._asked &= ~(1 << k)
        if not self._asked:
            self._proven()
        return True

    def _proven(self):
        n = min(_PROBES, self._unproven)
        self._asked = 0
        self._probe = (self._probe + n - 1) % 65535 + 1
        self._unproven -= n
        self._stale = True

    # --- durability ---

    def commit(self):
        """Makes durable what the journal took. Raises OSError."""
        self._begin()
        if self.journal:
            self.journal.commit()
        self.busy = False

    def tidy(self, idle=True):
        """The client has time: `idle`, all that was noted becomes durable; a sector may be erased ahead of
        its use (one at most). Raises OSError."""
        self._begin()
        if self.journal:
            if idle:
                self.journal.commit()
            self.journal.collect()
        self.busy = False

    # --- going out ---

    def publish(self, name, payload, qos, retain):
        """Takes a message: at QoS 1 and 2 it is durable when this returns; at QoS 0 it is what output()
        offers next (there must be nothing left to offer). name is bytes.
        Returns the Message ID, 0 at QoS 0 or if the full journal dropped it.
        Raises ValueError, OutboxFull, OSError if flash fails."""
        self._begin()
        try:
            mid = self._publish_message(name, payload, qos, retain)
        except (ValueError, OutboxFull):  # nothing has changed
            self.busy = False
            raise
        self.busy = False
        return mid

    def _publish_message(self, name, payload, qos, retain):
        tx = self.tx
        size = len(payload)
        outbound = self._outbound
        mid = outbound.free_mid(self._sub_mid) if qos else 0
        self._fresh = -1
        fits = True
        first = 0x30 | qos << 1 | (1 if retain else 0)
        if first == self.head and size == self.n - self.at and name is self.name:
            at = self.at
            end = packet.copy(tx, at, payload)
            if qos:
                tx[at - 2] = mid >> 8
                tx[at - 1] = mid & 0xFF
        else:
            self.head = 0
            end = at = packet.publish(tx, name, size, qos, retain, mid)
            fits = at + size <= len(tx)
            if fits:
                end = packet.copy(tx, at, payload)
                self._keep(first if name is self.name else 0, at, end)
        if not qos:
            self._ready = end
            if not fits:
                self._rest = payload
                self._rest_at = 0
                self._left = size
            self.count[SENT] += 1
            return 0
        if self._drop and at + size <= self.journal.largest and not self._make_room(at + size):
            return 0
        tx[0] = first | DUP if self._resumed else first
        place = outbound.accept(mid, tx, end, None if fits else payload)
        tx[0] = first
        if fits:
            self._fresh = place
        self.journal.commit()
        self.count[ACCEPTED] += 1
        return mid

    def _keep(self, first, at, end):
        # Devices say the same thing again and again: then only the payload has to be put in.
        self.form = copying(end - at, len(self.tx) - at)
        self.head = first if self.form else 0
        self.at = at
        self.n = end

    def _make_room(self, size):
        # What gives way when the journal is full: the oldest waiting messages, if that helps, or the new one.
        journal = self.journal
        if journal.fits(OUT, size):
            return True
        helps = self._drop == "oldest" and self._outbound.can_drop(journal.used + journal.cost(size) - journal.limit)
        while not journal.fits(OUT, size):
            self.count[DROPPED] += 1
            if not (helps and self._outbound.drop_oldest()):
                return False
        return True

    def check_request(self, filters):
        """Raises ValueError if a SUBSCRIBE of filters (bytes) does not fit the buffer."""
        packet.request_size(self.tx, filters, ())

    def subscribe(self, filters, qos):
        """Asks for filters (bytes) at qos[i], or gives them up if qos is None. receive() returns
        the SUBACK or UNSUBACK. One request at a time."""
        self._begin()
        self._sub_mid = self._outbound.last_mid = self._outbound.free_mid(0)
        if qos and 2 in qos:
            self._inbound.prepare()
        self._sub = filters
        self._sub_qos = qos
        self._sub_due = True
        self._sub_dup = 0
        self.busy = False

    @property
    def within_packet(self):
        """True if a packet was begun that has not left, or not all of it."""
        return self._left > 0 or self._ready > 0

    @property
    def asking(self):
        """True while a SUBSCRIBE or UNSUBSCRIBE is unanswered."""
        return self._sub is not None

    def ping(self):
        """PINGREQ leaves with the next output()."""
        self._ping = True

    @property
    def pinging(self):
        """True while a PINGREQ is unanswered."""
        return self._ping or self._ping_at >= 0

    def overdue(self, now):
        """True if there is no time left for a PINGRESP [MQTT-3.12.4-1]."""
        return self._ping_at >= 0 and not self.left(now, self._ping_at)

    def left(self, now, start):
        """Returns how many ms are left for an answer that is waited for from `start` on, 0: none. They begin
        anew with each byte that comes, since a broker that is busy with something else is alive; for
        ten times as long at most, since it has to answer some time, but for a long message in front of the
        answer, of which enough comes in that time."""
        bound = self._long_at if ticks_diff(self._long_at, start) > 0 else start
        last = self._last_in if ticks_diff(self._last_in, start) > 0 else start
        if passed(now, last, self.timeout) or passed(now, bound, 10 * self.timeout):
            return 0
        return self.timeout - ticks_diff(now, last)

    def disconnect(self):
        """DISCONNECT is the last packet to leave [MQTT-3.14.4-2]."""
        self._ready = packet.bare(self.tx, packet.DISCONNECT)
        self.head = 0
        self.connected = False

    def output(self, now):
        """Returns how many bytes of `out`, from `out_at` on, are to be written next, whole and
        before anything else; 0 if there is nothing to say. What they say is durable by then: all that
        leaves is offered here. Raises OSError if flash fails."""
        self._begin()
        self._now = now
        self.out_at = 0
        n = self._output()
        if n:
            if self.journal:
                self.journal.commit()
            self._last_out = now
        self.busy = False
        return n

    def _output(self):
        self.out = self.tx
        if self._ready:
            n = self._ready
            self._ready = 0
            return n
        if self._left:
            return self._more()
        if self._reply:
            self.out = self.decoder.spare  # the packet in tx is left alone
            n = packet.ack(self.out, self._reply >> 20, self._reply & 0xFFFF, self._reply >> 16 & 8)
            self._reply = 0
            return n
        if not self.connected:
            return 0
        if self._resumed and self._retry and passed(self._now, self._progress, self._pause):
            self._repeat()
        if self._sub_due:
            return self._send_subscribe()
        if self._resumed and self._outbound.waiting and not self._asked:
            i = self._outbound.next()
            if i >= 0:
                return self._send_row(i)
        if self._ping or (self.keepalive and self._ping_at < 0 and self._is_silent()):
            return self._send_ping()
        return 0

    def _is_silent(self):
        # One way or the other: the broker has to hear of us, and a dead link has to be noticed.
        now = self._now
        return passed(now, self._last_out, self.keepalive) or passed(now, self._last_in, self.keepalive)

    def _repeat(self):
        # Nothing was answered for a while: level 3 lets a sender repeat, ever more slowly.
        self._progress = self._now
        self._reasked = self._reasked or self._asked > 0
        self._asked = 0
        some = self._outbound.again()
        if self._sub and not self._sub_due:
            some = self._sub_due = True
            self._sub_dup = self._dup()
        if some:
            self._pause = min(self._pause * 2, 600_000)

    def _dup(self):
        # The flag of a PUBREL, SUBSCRIBE or UNSUBSCRIBE that is re-sent: reserved at level 4.
        return 8 if self.decoder.level == 3 else 0

    def _send_subscribe(self):
        self._fresh = -1
        self.head = 0
        self._sub_due = False
        self._progress = self._now
        return packet.subscribe(self.tx, self._sub_mid, self._sub, self._sub_qos, self._sub_dup)

    def _send_ping(self):
        self._ping = False
        self._pinged = True
        self._ping_at = self._now
        self.count[PINGS] += 1
        self.out = self.decoder.spare
        return packet.bare(self.out, packet.PINGREQ)

    def _send_row(self, i):
        outbound = self._outbound
        self._progress = self._now
        if outbound.states[i] & STATE == REL:
            outbound.sent(i, 2)
            self.count[RESENT] += 1
            self.out = self.decoder.spare
            return packet.ack(self.out, packet.PUBREL, outbound.mids[i], self._dup())
        dup = outbound.states[i] & DUP
        if outbound.uncovered and not dup:
            outbound.uncovered = False
            self._below = self.journal.next_seq
            self._stale = True
        if self._stale or self._most < self._window:
            self._write_record()
        tx = self.tx
        place = outbound.places[i]
        at = 0
        n = self.n
        if place != self._fresh:
            self.head = 0
            self.journal.check(place)
            at = self.out_at = self.journal.read(place, 0, tx)
            n = packet.length(tx, at)
            if at + n > len(tx):
                self._rest = None
                self._rest_place = place
                self._rest_at = len(tx) - at
                self._left = n - self._rest_at
                n = self._rest_at
        qos = tx[at] >> 1 & 3
        if qos == 2 and self._is_unproven(outbound.mids[i]):
            self._left = 0
            return self._send_probes()
        self._fresh = -1
        outbound.sent(i, qos)
        if dup:
            tx[at] |= 8
            self.head = 0
            self.count[RESENT] += 1
        else:
            tx[at] &= 0xF7
            self.count[SENT] += 1
        return n

    def _more(self):
        # The next piece of a packet longer than tx.
        n = self._left
        if self._rest is not None:
            self.out = self._rest
            self._rest = None
        else:
            self.out_at = self.journal.read(self._rest_place, self._rest_at, self.tx)
            n = min(n, len(self.tx) - self.out_at)
            self._rest_at += n
        self._left -= n
        return n

    # --- coming in ---

    def fed(self, n, now):
        """n bytes were read into decoder.view: the broker is alive."""
        if self.decoder.left:
            self._came += n
            if self._came >= _PACE:
                self._came = 0
                self._long_at = now
        self.decoder.fed(n)
        self._last_in = now

    def receive(self, now):
        """Handles the next packet, or piece of a PUBLISH, in the decoder. Returns its type, 0 if
        more bytes are needed. After a PUBLISH: hand it over if `deliver`, then call taken().
        Raises ProtocolError: the connection is to be closed [MQTT-4.8.0-1]."""
        self._begin()
        try:
            kind = self._receive(now)
        except packet.ProtocolError:  # what was noted stands
            self.busy = False
            raise
        self.busy = False
        return kind

    def _receive(self, now):
        kind = self.decoder.next()
        if not kind:
            return 0
        self._now = now
        if self.connected == (kind == packet.CONNACK):
            raise packet.ProtocolError("type %d out of place" % kind)
        if kind == packet.PUBLISH:
            self._publish()
        elif kind == packet.CONNACK:
            self._connack()
        elif kind == packet.PUBREL:
            self._inbound.released(self.decoder.mid)
            self._answer(packet.PUBCOMP, 0)
        elif kind <= packet.PUBCOMP:
            self._acked(kind)
        elif kind == packet.PINGRESP:
            self._ping_at = -1
            if self._asked and self._pinged:
                self._proven()  # it has had our PUBRELs, and does not answer those for ids that it does not hold
        else:
            self._suback(kind)
        return kind

    def _answer(self, kind, dup):
        self._reply = kind << 20 | dup << 16 | self.decoder.mid

    def _acked(self, kind):
        if kind == packet.PUBCOMP and self._asked and self._is_proof(self.decoder.mid):
            return
        act = self._outbound.acked(kind, self.decoder.mid)
        if act == ERROR and self._reasked and kind == packet.PUBCOMP:
            act = IGNORED
        if act == ERROR:
            raise packet.ProtocolError("type %d for Message ID %d" % (kind, self.decoder.mid))
        if act == IGNORED or act == UNKNOWN:
            self.count[UNKNOWN_ACKS] += 1
        else:
            self._progress = self._now
            self._pause = self._retry
        if act == FINISH:
            self.count[COMPLETED] += 1
            self.completed = self.decoder.mid
        elif act != IGNORED and kind == packet.PUBREC:
            self._answer(packet.PUBREL, self._dup() if act == REPEAT else 0)

    def _suback(self, kind):
        d = self.decoder
        if d.mid != self._sub_mid:
            self.count[UNKNOWN_ACKS] += 1  # of a request that was repeated, or given up
            return
        ok = (kind == packet.SUBACK) == (self._sub_qos is not None)
        if ok and kind == packet.SUBACK:
            self.granted = bytes(d.buf[d.at : d.at + d.n])
            ok = d.n == len(self._sub)
            for code in self.granted:
                ok = ok and (code < 3 or code == 0x80)
        if not ok:
            raise packet.ProtocolError("type %d for Message ID %d" % (kind, d.mid))
        self._sub = None
        self._sub_mid = 0
        self._sub_due = False

    def _publish(self):
        d = self.decoder
        if not d.offset:
            self.redelivered = False
            self.deliver = d.topic_len > 0
            if not self.deliver:
                self.count[TOO_LONG] += 1
            if d.flags & 4:
                self._seen(self._inbound.seen(d.mid))
                if self.journal:
                    self.journal.commit()  # before the application has it: `redelivered` must tell if the power goes

    def _seen(self, what):
        if what == DUPLICATE:
            self.deliver = False
            self.count[DUPLICATES] += 1
        elif what == AGAIN:
            self.redelivered = True
            self.count[REDELIVERED] += 1

    def taken(self):
        """The application has had what receive() returned. A message is acknowledged when it was
        the last piece, with or without a handler [MQTT-3.3.4-1, 4.5.0-2]."""
        d = self.decoder
        if d.left:
            return
        if self.deliver:
            self.count[RECEIVED] += 1
        self.acknowledge(d.flags, d.mid)

    def acknowledge(self, flags, mid, answer=True):
        """The application is done with the message that came with these flags and Message ID. answer False:
        not on this connection."""
        self._begin()
        if flags & 4:
            self._inbound.taken(mid)
        if answer and flags & 6:
            self._reply = (packet.PUBACK if flags & 2 else packet.PUBREC) << 20 | mid
        self.busy = False
