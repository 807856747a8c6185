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
# What output() offers, in this order:
#
#   always        1. what is left of the packet that was begun (CONNECT and DISCONNECT are such, too)
#                 2. the acknowledgement that is due
#   connected     3. SUBSCRIBE or UNSUBSCRIBE
#                 4. the oldest PUBLISH or PUBREL that Outbound has to send; before a PUBLISH of QoS 2
#                    under an id that is not proven free, the PUBRELs of ForeignIds
#                 5. PINGREQ
#
# What outlives the power stands in the journal: messages, received ids, and the SessionRecord.

from array import array
from errno import ECONNABORTED, ENOBUFS

import inflight.packet as packet

from .journal import OUT, OutboxFull  # isort: skip (from here: each import within an import takes stack)
from .foreign import ForeignIds
from .inbound import AGAIN, DUPLICATE, Inbound
from .keep_alive import KeepAlive
from .outbound import DUP, ERROR, FINISH, IGNORED, REL, REPEAT, STATE, UNKNOWN, Outbound
from .port import const, passed
from .send_buffer import SendBuffer
from .session_record import CLEAN, ENDING, PERSISTENT, SessionRecord

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
        if journal and len(buffer) - half > journal.size:
            raise ValueError("buffer: twice the %d bytes of the journal at most" % journal.size)
        self.out = SendBuffer(memoryview(buffer)[half:], journal)
        self.decoder = packet.Decoder(memoryview(buffer)[:half], level)
        self.keep_alive = KeepAlive(keepalive, timeout)
        self.count = array("I", bytes(68))
        self.present = False  # session present of the last CONNACK
        self.code = 0  # its return code
        self.granted = b""  # return codes of the last SUBACK
        self.deliver = False  # the application is owed the piece that receive() returned
        self.redelivered = False  # it may have had that message before, when power was cut
        self.completed = 0  # Message ID that receive() completed last; its reader sets it back
        self.ended = ()  # those that the last CONNACK completed
        self.journal = journal
        self.client_id = client_id
        self._retry = retry
        self.tick = min(1000, keepalive * 2 // 15 or 1000, retry or 1000)  # its timers are looked at this often, ms
        self._drop = drop
        self._window = window
        self._limit = inbound
        self.busy = False  # an operation is under way, or one that did not come to its end left things half done
        self._load()
        self.reset()

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
        record = self._record = SessionRecord(journal, self.client_id)
        self._foreign = ForeignIds(record)
        self._outbound = Outbound(journal, self._window, record.below, record.most)
        self._inbound = Inbound(journal, self._limit)
        if journal:
            journal.owner = self
            if record.stale:
                # But for those of its own messages: a PUBREL of ours would end their handshakes.
                last = self._outbound.last_mid
                self._foreign.begin(last % 65535 + 1, (self._outbound.oldest_mid() - last - 1) % 65535 or 65535)
                self._write_record()

    def _write_record(self):
        self._record.write(max(self._window, self._outbound.held))

    @property
    def known(self):
        """True if the journal knows its session."""
        return self._record.known

    def moved(self, old, new):
        """The journal copied a record to another place."""
        self._outbound.moved(old, new)
        self._inbound.moved(old, new)
        self._record.moved(old, new)
        self.out.moved(old, new)

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
        self.out.clear()
        self._foreign.reset()
        self._clean = False
        self._reply = 0  # the acknowledgement that is due: type, DUP of a PUBREL, Message ID
        self._sub = self._sub_qos = None  # filters asked for
        self._sub_mid = 0
        self._sub_due = False
        self._sub_dup = 0
        self._reasked = False  # PUBRELs of ForeignIds were repeated, and may be answered twice
        self._now = self._progress = 0
        self._pause = self._retry
        self.keep_alive.begin(0)

    def lost(self):
        """The connection broke."""
        self.count[OUTAGES] += 1
        self.reset()

    def connect(self, now, clean, keepalive, user, password, will):
        """A connection stands, CONNECT is its first packet [MQTT-3.1.0-1]; keepalive in seconds,
        strings as bytes. Raises ValueError if the packet does not fit the buffer, OSError if flash fails."""
        self._begin()
        self.reset()
        out = self.out
        out.send(packet.connect(out.buf, self.decoder.level, self.client_id, clean, keepalive, user, password, will))
        self._clean = clean
        self.code = 0
        self.keep_alive.begin(now)
        if clean and self.known and self._record.mode == PERSISTENT:
            self._record.mode = ENDING
            self._write_record()
        self.busy = False

    def _connack(self):
        d = self.decoder
        # At level 3 byte 1 is reserved: the client goes on as if the broker knew the session.
        present = d.buf[d.at] if d.level > 3 else 0
        self.code = d.buf[d.at + 1]
        if present > 1 or self.code > 5 or (present and (self.code or self._clean)):
            raise packet.ProtocolError("CONNACK %d %d" % (present, self.code))
        self.present = present == 1
        if self.code:
            self.count[REFUSED] += 1
            return
        self.connected = True
        self.count[CONNECTS] += 1
        self._begin_session(not present and d.level > 3)

    def _begin_session(self, none):
        # `none`: the broker says that it has none of ours.
        record = self._record
        mode = record.mode
        new = self._clean or none or mode == CLEAN
        if new:
            self._inbound.forget()
        if mode == CLEAN or (mode == ENDING and new):
            self.count[DROPPED] += self._outbound.discard()
        elif none and not self._clean:
            self.ended = self._outbound.forgotten()
            self.count[COMPLETED] += len(self.ended)
        if new:
            self._foreign.end()
        elif self.journal and not self.known:
            self._foreign.begin(self._outbound.oldest_mid())
        record.mode = CLEAN if self._clean else PERSISTENT
        if record.mode != mode or not self.known:
            record.stale = True

    def resume(self):
        """Lets messages go, those in flight first [MQTT-4.4.0-1]. From now on the broker may know
        Message IDs of ours: the journal knows of the session before the first one leaves. Raises
        OSError if flash fails."""
        self._begin()
        if self.journal and self._record.stale:
            self._write_record()
        self._outbound.again()
        self._resumed = True
        self.busy = False

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
        out = self.out
        outbound = self._outbound
        mid = outbound.free_mid(self._sub_mid) if qos else 0
        n = out.publish(name, payload, qos, retain, mid)
        if not qos:
            out.send(n)
            self.count[SENT] += 1
            return 0
        if self._drop and out.size <= self.journal.largest and not self._make_room(out.size):
            return 0
        first = out.buf[0]
        if self._resumed:
            out.buf[0] = first | DUP
        place = outbound.accept(mid, out.buf, n, out.rest)
        out.buf[0] = first
        out.accepted(place)
        self.journal.commit()
        self.count[ACCEPTED] += 1
        return mid

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
        packet.request_size(self.out.buf, filters, ())

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
    def asking(self):
        """True while a SUBSCRIBE or UNSUBSCRIBE is unanswered."""
        return self._sub is not None

    def disconnect(self):
        """DISCONNECT is the last packet to leave [MQTT-3.14.4-2]."""
        self.out.clear()
        self.out.send(packet.bare(self.out.buf, packet.DISCONNECT))
        self.connected = False

    def output(self, now):
        """Returns how many bytes of out.view, from out.at on, are to be written next, whole and
        before anything else; 0 if there is nothing to say. What they say is durable by then: all that
        leaves is offered here. Raises OSError if flash fails."""
        self._begin()
        self._now = now
        n = self._output()
        if n:
            if self.journal:
                self.journal.commit()
            self.keep_alive.sent(now)
        self.busy = False
        return n

    def _output(self):
        n = self.out.next()
        if n:
            return n
        if self._reply:
            n = self._put_ack(self._reply >> 20, self._reply & 0xFFFF, self._reply >> 16 & 8)
            self._reply = 0
            return n
        if not self.connected:
            return 0
        if self._resumed and self._retry and passed(self._now, self._progress, self._pause):
            self._repeat()
        if self._sub_due:
            return self._send_subscribe()
        if self._resumed and self._outbound.waiting and not self._foreign.asked:
            i = self._outbound.next()
            if i >= 0:
                return self._send_row(i)
        if self.keep_alive.ping_due(self._now):
            return self._send_ping()
        return 0

    def _put_ack(self, kind, mid, dup):
        # Beside the packet in the buffer, which is left alone.
        out = self.out
        out.view = self.decoder.spare
        return packet.ack(out.view, kind, mid, dup)

    def _repeat(self):
        # Nothing was answered for a while: level 3 lets a sender repeat, ever more slowly.
        self._progress = self._now
        self._reasked = self._reasked or self._foreign.asked > 0
        self._foreign.asked = 0
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
        self.out.clear()
        self._sub_due = False
        self._progress = self._now
        return packet.subscribe(self.out.buf, self._sub_mid, self._sub, self._sub_qos, self._sub_dup)

    def _send_ping(self):
        self._foreign.pinged = True
        self.keep_alive.ping_sent(self._now)
        self.count[PINGS] += 1
        self.out.view = self.decoder.spare
        return packet.bare(self.out.view, packet.PINGREQ)

    def _send_row(self, i):
        outbound = self._outbound
        record = self._record
        mid = outbound.mids[i]
        self._progress = self._now
        if outbound.states[i] & STATE == REL:
            outbound.sent(i, 2)
            self.count[RESENT] += 1
            return self._put_ack(packet.PUBREL, mid, self._dup())
        dup = outbound.states[i] & DUP
        if outbound.uncovered and not dup:
            outbound.uncovered = False
            record.below = self.journal.next_seq
            record.stale = True
        if record.stale or record.most < self._window:
            self._write_record()
        out = self.out
        n = out.load(outbound.places[i], dup)
        qos = out.view[out.at] >> 1 & 3
        if qos == 2 and self._foreign.is_unproven(mid):
            out.clear()
            return self._foreign.write_probes(out.buf)
        outbound.sent(i, qos)
        self.count[RESENT if dup else SENT] += 1
        return n

    # --- coming in ---

    def fed(self, n, now):
        """n bytes were read into decoder.view: the broker is alive."""
        self.keep_alive.received(n, now, self.decoder.left > 0)
        self.decoder.fed(n)

    def receive(self, now):
        """Handles the next packet, or piece of a PUBLISH, in the decoder. Returns its type, 0 if
        more bytes are needed. After a PUBLISH: hand it over if `deliver`, then call taken().
        Raises, and the connection is to be closed: ProtocolError [MQTT-4.8.0-1]; OSError if flash fails;
        ENOBUFS if more QoS 2 messages are in flight than it takes, of which no CONNECT can tell the broker."""
        self._begin()
        try:
            kind = self._receive(now)
        except packet.ProtocolError:  # what was noted stands
            self.busy = False
            raise
        except OutboxFull:
            self.busy = False
            raise OSError(ENOBUFS, "more QoS 2 messages in flight than `inbound`, or than the journal has space for")
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
            self.keep_alive.ping_answered()
            self._foreign.ping_answered()
        else:
            self._suback(kind)
        return kind

    def _answer(self, kind, dup):
        self._reply = kind << 20 | dup << 16 | self.decoder.mid

    def _acked(self, kind):
        mid = self.decoder.mid
        if kind == packet.PUBCOMP and self._foreign.asked and self._foreign.is_answer(mid):
            return
        act = self._outbound.acked(kind, mid)
        if act == ERROR and self._reasked and kind == packet.PUBCOMP:
            act = IGNORED
        if act == ERROR:
            raise packet.ProtocolError("type %d for Message ID %d" % (kind, mid))
        if act == IGNORED or act == UNKNOWN:
            self.count[UNKNOWN_ACKS] += 1
        else:
            self._progress = self._now
            self._pause = self._retry
        if act == FINISH:
            self.count[COMPLETED] += 1
            self.completed = mid
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
