# The session: what this client and its broker owe each other. Bytes and time values go in,
# packets to write and events come out; there is no socket and no clock here.
#
# Theory of operation
# -------------------
# The owner of the connection does this in a loop:
#   1. It reads into decoder.view and reports that with bytes_received().
#   2. It calls next_event() until that returns 0. After a PUBLISH it calls the handlers, then delivered().
#   3. Before each call of next_event() it writes what data_to_send() offers, until that returns 0.
# So one acknowledgement at most waits to be sent, and acknowledgements are sent in the order in which
# the packets were received [MQTT-4.6.0-2, 4.6.0-3, 4.6.0-4].
#
#   state         next_event()                                     clause
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
# What data_to_send() offers, in this order:
#
#   always        1. what is left of the packet that was begun (CONNECT and DISCONNECT are such, too)
#                 2. the acknowledgement that is due
#   connected     3. SUBSCRIBE or UNSUBSCRIBE
#                 4. the oldest PUBLISH or PUBREL that Outbound has to send; before a PUBLISH of QoS 2
#                    under an id that is not proven free, the PUBRELs of ForeignIds
#                 5. PINGREQ
#
# What outlives the power stands in the journal: messages, received ids, and the SessionRecord.

from errno import ECONNABORTED

import inflight.counters as counters
import inflight.packet as packet

from .records import OUT  # isort: skip (from here: each import within an import takes stack)
from .compat import const, passed
from .errors import OutboxFull
from .keep_alive import KeepAlive
from .outbound import Outbound
from .send_buffer import SendBuffer
from .session_record import SessionRecord
from .states import DUP, ERROR, FINISH, IGNORED, REL, REPEAT, STATE, UNKNOWN

_PROBES_MS = const(1000)  # until a PINGREQ finds out whether PUBRELs of ForeignIds will be answered


class Session:
    """One session of one client with one broker. session_load.start() tells its arguments."""

    counters = 19  # how many there are
    notices = ()  # exceptions that the application is to be told of; its reader removes them
    # Methods of receiving.
    _handle_publish: "Any"  # type: ignore[name-defined] # noqa: F821
    acknowledge: "Any"  # type: ignore[name-defined] # noqa: F821
    delivered: "Any"  # type: ignore[name-defined] # noqa: F821
    # Of what session_load sets.
    out: SendBuffer
    decoder: packet.Decoder
    keep_alive: KeepAlive
    count: "Any"  # type: ignore[name-defined] # noqa: F821  counters wrap at 32 bits
    present: bool
    deliver: bool
    code: int
    tick: int
    when_full: str
    identifier: int
    record: SessionRecord
    outbound: Outbound
    _retry: int
    _max_inflight: int
    _most: int  # messages that can have left
    _receive_maximum: int
    ended_by = None  # the error that ended the last connection; see suspects

    def __init__(self, journal, *args, **options):
        self.journal = journal
        from .session_load import start

        start(self, journal, *args, **options)
        self.reset()
        self.holds_journal = True

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

    def _begin(self):
        # What changes the session is whole when `busy` is off again; whatever interrupts it leaves it on.
        if self.busy:
            if self.journal and self.journal.owner is not self:
                raise ValueError("another client uses this journal since: make a new one for it, or a journal for each")
            raise OSError(ECONNABORTED, "an operation was interrupted")
        self.busy = True

    def _load(self):
        # Builds what the journal knows, at a start and after it was mounted again in place.
        from .session_load import load

        load(self)

    def expect_qos_2(self):
        """The broker may send messages of QoS 2. Returns Inbound."""
        if not self.inbound:
            from .inbound import Inbound

            self.inbound = Inbound(self.journal, self._receive_maximum)
        return self.inbound

    def write_record(self):
        self.record.write(self._most)

    def moved(self, old, new):
        """The journal copied a record to another address."""
        self.outbound.moved(old, new)
        if self.inbound:
            self.inbound.moved(old, new)
        self.record.moved(old, new)
        self.out.moved(old, new)

    def can_spare(self, at):
        """The journal finds no space for a copy of the record at address `at`. True: it may go."""
        return self.record.can_spare(at)

    @property
    def pending(self):
        """Messages of QoS 1 and 2 that the broker has not completed."""
        return self.journal.live if self.journal else 0

    # --- the connection ---

    def reset(self):
        """The connection is gone, or was never there. What is in flight stays in the journal."""
        self.connected = self.holds_journal = False
        self._resumed = 0  # 1: PUBRELs may go; DUP: messages too, also those accepted from now on
        self.decoder.reset()
        self.out.clear()
        if self.foreign and self.record.unproven:
            self.foreign.reset()
        else:
            self.foreign = None
        self.clean = False
        self.closing = None  # called to end the connection, when its time has come: see malformed
        self.left_with_broker = False  # a message of QoS 2 found no space: none goes before it [MQTT-4.6.0-6]
        self._ack_due = 0  # the acknowledgement that is due: type, DUP of a PUBREL, Message ID
        self.request = self.request_qos = None  # filters asked for
        self.request_mid = 0
        self.request_due = False
        self.request_dup = 0
        self._late_proofs = False  # PUBRELs of ForeignIds may still be answered, or once more
        self.now = self.progress_at = 0
        self._retry_pause = self._retry
        self.keep_alive.begin(0)

    def connection_lost(self, client=None, error=None):
        """The connection broke, with this error of `client`."""
        self.count[counters.OUTAGES] += 1
        if self.outbound.rows:
            self.ended_by = error
        self.reset()

    def connect(self, now, clean_session, keepalive, user, password, will):
        """A connection stands, CONNECT is its first packet [MQTT-3.1.0-1]; keepalive in seconds,
        strings as bytes. Raises ValueError if the packet does not fit the buffer, OSError if flash fails."""
        self._begin()
        self.reset()
        self.holds_journal = True  # until the next reset()
        from .handshake import connect

        connect(self, now, clean_session, keepalive, user, password, will)
        self.busy = False

    def connect_fields(self, clean_session, will):
        """Returns what level 5 has otherwise in CONNECT: its flag 2, and the properties of it and of its will."""
        return clean_session, (b"", b"")

    def resume(self):
        """Lets messages go, those in flight first [MQTT-4.4.0-1]. From now on the broker may know
        Message IDs of ours: the journal knows of the session before the first one leaves, and that the ids
        which a lost session received are forgotten before one comes anew. Raises OSError if flash fails."""
        self._begin()
        from .handshake import resume

        resume(self)
        self.busy = False

    # --- durability ---

    def commit(self):
        """Makes durable what the journal took, unless another client has taken it over. Raises OSError."""
        if self.journal and self.journal.owner is self:
            self._begin()
            self.journal.commit()
            self.busy = False

    def collect(self, idle=True):
        """The client has time: `idle`, all that was noted becomes durable; a sector may be erased ahead of
        its use (one at most). After an operation that was interrupted recover() comes first. Raises OSError."""
        if self.busy:
            return
        if self.closing:
            self.closing(self)
        self.busy = True
        if self.journal:
            if idle:
                self.journal.commit()
            self.journal.collect()
        self.busy = False

    # --- going out ---

    def publish(self, name, payload, qos, retain):
        """Takes a message: at QoS 1 and 2 it is durable when this returns; at QoS 0 it is what
        data_to_send() offers next (there must be nothing left to offer). name is bytes.
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
        outbound = self.outbound
        mid = outbound.free_mid(self.request_mid) if qos else 0
        n = out.publish(name, payload, qos, retain, mid)
        if not qos:
            out.send(n)
            self.count[counters.SENT] += 1
            return 0
        if self.when_full and out.size <= self.journal.largest and not self.journal.fits(OUT, out.size):
            from .discarding import make_space

            if not make_space(self, out.size):
                return 0
        dup = self._resumed & DUP
        out.accepted(outbound.accepted(mid, out.append(mid, dup), dup))
        self.journal.commit()
        self.count[counters.ACCEPTED] += 1
        return mid

    def subscribe(self, filters, qos):
        """Asks for filters (bytes) at qos[i], or gives them up if qos is None. next_event()
        returns the SUBACK or UNSUBACK. One request at a time. Level 5: `identifier` is its Subscription Identifier."""
        self._begin()
        from .subscribing import request

        request(self, filters, qos)
        self.busy = False

    def disconnect(self, code=0):
        """DISCONNECT is the last packet to leave [MQTT-3.14.4-2]; level 5 has a reason code."""
        self.out.clear()
        self.out.send(packet.bare(self.out.buf, packet.DISCONNECT))
        self.connected = False

    def data_to_send(self, now):
        """Returns how many bytes of out.view, from out.at on, are to be written next, whole and
        before anything else; 0 if there is nothing to say. What they say is durable by then: all that
        leaves is offered here. Raises OSError if flash fails."""
        self._begin()
        self.now = now
        n = self._select()
        if n:
            if self.journal:
                self.journal.commit()
            self.keep_alive.sent_at = now
        self.busy = False
        return n

    def _select(self):
        n = self.out.next()
        if n:
            return n
        if self._ack_due:
            n = self._put_ack(self._ack_due >> 20, self._ack_due & 0xFFFF, self._ack_due >> 16 & 8)
            self._ack_due = 0
            return n
        if not self.connected:
            return 0
        if self._resumed and self._retry and passed(self.now, self.progress_at, self._retry_pause):
            self._retransmit()
        if self.request_due:
            from .subscribing import write

            return write(self)
        foreign = self.foreign
        if self.outbound.aside and self._resumed & DUP:
            self.outbound.aside.look(self)
        if self._resumed and self.outbound.waiting and not (foreign and foreign.asked):
            i = self.outbound.next()
            if i >= 0:
                return self._send_message(i)
        if foreign and foreign.asked and not foreign.pinged and passed(self.now, self.progress_at, _PROBES_MS):
            self.keep_alive.requested = True  # some brokers do not answer PUBRELs for ids that they do not hold
        if self.keep_alive.ping_due(self.now):
            return self._send_ping()
        return 0

    def _put_ack(self, kind, mid, dup):
        # Beside the packet in the buffer, which is left alone.
        out = self.out
        out.view = self.decoder.spare
        return packet.ack(out.view, kind, mid, dup)

    def _retransmit(self):
        # Nothing was answered for a while: level 3 lets a sender repeat, ever more slowly.
        self.progress_at = self.now
        if self.foreign and self.foreign.asked:
            self._late_proofs = True
            self.foreign.asked = 0
        some = self.outbound.retransmit()
        if self.request and not self.request_due:
            some = self.request_due = True
            self.request_dup = self._dup()
        if some:
            self._retry_pause = min(self._retry_pause * 2, 600_000)

    def _dup(self):
        # The flag of a PUBREL, SUBSCRIBE or UNSUBSCRIBE that is re-sent: reserved at level 4.
        return 8 if self.decoder.protocol_level == 3 else 0

    def _send_ping(self):
        if self.foreign:
            self.foreign.pinged = True
        self.keep_alive.ping_sent(self.now)
        self.count[counters.PINGS] += 1
        self.out.view = self.decoder.spare
        return packet.bare(self.out.view, packet.PINGREQ)

    def _send_message(self, i):
        outbound = self.outbound
        mid = outbound.mids[i]
        self.progress_at = self.now
        if outbound.states[i] & STATE == REL:
            outbound.sent(i, 2)
            self.count[counters.RESENT] += 1
            return self._put_ack(packet.PUBREL, mid, self._dup())
        dup = outbound.states[i] & DUP
        out = self.out
        n = out.load(outbound.addresses[i], dup)
        if not n:
            return 0
        qos = out.view[out.at] >> 1 & 3
        if qos == 2 and self.foreign and self.foreign.is_unproven(mid):
            out.clear()
            return self.foreign.write_probes(out.buf)
        outbound.sent(i, qos)
        self.count[counters.RESENT if dup else counters.SENT] += 1
        return n

    # --- coming in ---

    def bytes_received(self, n, now):
        """n bytes were read into decoder.view: the broker is alive."""
        self.keep_alive.bytes_received(n, now, self.decoder.left > 0)
        self.decoder.bytes_received(n)

    def next_event(self, now):
        """Handles the next packet, or piece of a PUBLISH, in the decoder. Returns its type, 0 if
        more bytes are needed. After a PUBLISH: hand it over if `deliver`, then call delivered().
        Raises, and the connection is to be closed: ProtocolError [MQTT-4.8.0-1]; OSError if flash fails;
        ENOBUFS if more QoS 2 messages are in flight than it takes, of which no CONNECT can tell the broker. Where
        messages to the broker wait, they go first, and collect() raises it."""
        self._begin()
        kind = 0
        try:
            kind = self.decoder.next()
            if kind:
                self.now = now
                if self.connected == (kind == packet.CONNACK) and kind <= packet.DISCONNECT:
                    raise packet.ProtocolError("type %d out of place" % kind)
                self._handle(kind)
        except (packet.ProtocolError, OutboxFull) as e:  # what was noted stands
            self.busy = False
            from .malformed import skip

            kind = skip(self, e, kind)
        self.busy = False
        return kind

    def _handle(self, kind):
        if kind == packet.PUBLISH:
            self._handle_publish()
        elif kind == packet.CONNACK:
            from .handshake import connack

            connack(self)
        elif kind == packet.PUBREL:
            if self.inbound:
                self.inbound.released(self.decoder.mid)
            self._owe_ack(packet.PUBCOMP, 0)
        elif kind <= packet.PUBCOMP:
            self._handle_ack(kind)
        elif kind == packet.PINGRESP:
            self.keep_alive.ping_answered()
            if self.foreign and self.foreign.ping_answered():
                self._late_proofs = True
        else:
            from .subscribing import suback

            suback(self, kind)

    def _owe_ack(self, kind, dup):
        self._ack_due = kind << 20 | dup << 16 | self.decoder.mid

    def _handle_ack(self, kind):
        mid = self.decoder.mid
        if kind == packet.PUBCOMP and self.foreign and self.foreign.is_answer(mid):
            return
        act = self.outbound.acknowledged(kind, mid)
        if act == ERROR and self._late_proofs and kind == packet.PUBCOMP:
            act = IGNORED
        if act == ERROR:
            raise packet.ProtocolError("type %d for Message ID %d" % (kind, mid))
        if act == IGNORED or act == UNKNOWN:
            self.count[counters.UNKNOWN_ACKS] += 1
        else:
            self.progress_at = self.now
            self._retry_pause = self._retry
        if act == FINISH:
            self.count[counters.COMPLETED] += 1
            self.completed = mid
        elif act != IGNORED and kind == packet.PUBREC:
            self._owe_ack(packet.PUBREL, self._dup() if act == REPEAT else 0)


def _load_receiving(decoder):
    """What takes messages becomes methods of Decoder and Session, and stays. Many clients only publish."""
    from .receiving import add_methods

    add_methods(packet.Decoder, Session)


def _first_publish(decoder, i, n):
    # Decoder._publish(), until the first PUBLISH comes.
    _load_receiving(decoder)
    return packet.Decoder._publish(decoder, i, n)


packet.Decoder.load_receiving = _load_receiving
packet.Decoder._publish = _first_publish
