# MQTT 5: what differs from the session of levels 3 and 4, and each message may need. What a connection needs when it
# begins and ends stands in connection5.
#
#   code of PUBACK or PUBREC   the message                                                    clause
#   00                         as at level 4                                                  MQTT5-4.3.2-3, 4.3.3-4
#   10: no subscribers         likewise, and is counted
#   93, 97: a quota            stays, and goes out later as a new one                         MQTT5-4.4.0-2
#   91: Message ID in use      stays; the connection ends, and then the broker's session
#   others from 80 on          is done, counted, and told                                     MQTT5-4.4.0-2
#
# So many messages of QoS 1 and 2 are unacknowledged at most as CONNACK says; all other packets go on.
# [MQTT5-3.3.4-7] [MQTT5-3.3.4-8]
#
# The journal keeps a PUBLISH as level 4 has it, since the level may change while messages wait; behind it, as a
# trailer, its properties without their length, and if they begin with an expiry interval the journal's seconds (see
# stored5) when it was accepted, 4 bytes. Levels 3 and 4 send the PUBLISH without them. A packet of level 5 as it stands
# in the buffer, and what the journal gets of it:
#
#   fixed header   topic, Message ID   length of properties, properties   payload
#   (level 4's)    head                                                   tail       trailer

from errno import EOPNOTSUPP

import inflight.counters as counters
import inflight.packet as packet

from ..compat import const, passed
from ..packet import CONNACK, LONGEST, PUBACK, PUBLISH, PUBREC, SUBACK, UNSUBACK, ProtocolError
from ..session.drop import give_up
from ..session.refused import PublishRefused
from ..session.session import Session
from ..states import BY_CONNECT, GIVEN_UP, OWED, REL, SEND, STATE
from .cursor import IN_PUBLISH, digits_for, digits_in

_NEVER = const(-0x10000000)
_NO_SUBSCRIBERS = const(0x10)
_FAILURE = const(0x80)
_NOT_FOUND = const(0x92)
_SUBSCRIPTION = const(0x0B)  # the properties
_EXPIRY = const(2)
_STAMP = const(4)  # bytes
_GROWTH = const(2)  # bytes of length that a packet without properties has more than its record, at most


class Session5(Session):
    """A Session of level 5. session_expiry: seconds that the broker keeps it without a connection; expiry: what the
    broker made of that; adopt: the client id is that of the journal, or the broker assigns one.

    reason_code: of the last packet; block: where its properties begin, 0: it has none. The broker takes packets of
    `maximum_out` bytes, messages of `maximum_qos`, and retained ones if `retain_available`. lowered: the PUBLISH that
    was loaded last asks for more; it is sent as the broker takes it."""

    counters = 29
    no_properties = out_block = b"\0"
    # As in PacketBuffer. A CONNACK of 2 bytes comes from a broker that does not know level 5.
    _sizes = (_NEVER, _NEVER, -3, -1, -3, -3, -3, -3, _NEVER, -5, _NEVER, -5, _NEVER, 0, -1, -1)
    places = b"\x00\x00\x08\x00\x20\x20\x20\x20\x00\x20\x00\x20\x00\x00\x40\x80"  # by type, as cursor has them
    maximum_in = LONGEST  # size of the longest packet that the broker may send
    paused_at: int
    granted_quota: int
    wanted_keep_alive: int
    _shift: int
    _block_at: int
    lowered: bool
    cursor = None  # a Cursor, once there are properties
    auth = None  # an Authentication
    aliases = None  # Aliases
    identifiers = True  # the broker takes Subscription Identifiers, as far as is known
    connect_properties = b"\x17\x00"  # of each CONNECT: acknowledgements shall come without reasons as text

    def __init__(self, journal, *args, session_expiry=0xFFFFFFFF, adopt=False, stall_ms=0, **options):
        self._adopt = adopt  # an empty client id means that of the journal
        self.stall = self.stall_ms = stall_ms  # ms until the oldest message counts as stalled, the next time: longer
        self.stuck = 0  # Message ID of the one that stalled
        self.session_expiry = self.expiry = session_expiry
        self.known = False  # the broker has, or had, this session: what the journal tells, in RAM
        self.ending = 0  # BY_DISCONNECT, BY_CONNECT: how the client ends a session of the broker that is not its own
        self.clean_start = False  # what the last CONNECT said
        self.reason = self.response_information = ""  # of the last CONNACK
        self.receive_maximum = 0  # what CONNECT announces
        self._properties = None
        self._do_attach = self._do_load = None  # functions that not every client needs, once they are loaded
        self._trailer = b""
        self._read_trailer = None
        # Of the last PUBLISH of QoS 1 or 2: where its properties begin, and its fixed header of level 4;
        self._block_at = self._shift = 0
        self._whole = 0  # its size at level 5; meanwhile `out_size` is what the journal takes
        self._remaining = 0  # its remaining length if it stands there whole, and is to be accepted
        self.lowered = False
        super().__init__(journal, *args, **options)
        self._behind_margin = self.out[_GROWTH:]
        self.wanted_keep_alive = self.keep_alive

    def _load(self):
        from .connection5 import load

        load(self, self._adopt, super()._load)

    def reset(self):
        super().reset()
        self.reason_code = self.block = 0
        self._block_due = False  # the properties of a long message are to be read next
        self.shorter = None  # what receive5 has done to a packet longer than the buffer
        self.broker_takes()  # nothing of a connection outlives it
        self._ack_code = 0  # of the acknowledgement that is due
        self.told_lowered = False
        self.owed = 0  # PUBACKs of messages that were discarded while they were in flight: they count for the quota
        self.quota = self.granted_quota = self.too_long = 0
        if self.auth:
            self.auth.reset()
        if self.aliases:
            self.aliases.allow(0)
        self.pause = 0  # ms since paused_at until messages may go again
        self.last_pause = 0
        self._stalling = self.probed = 0  # see _probe()
        self.longest = self.longest_mid = 0  # packet, and its Message ID if it is a PUBLISH of QoS 1 or 2
        self._stalling_since = 0
        self._second = -1  # it is looked at once in about a second

    def broker_takes(self, maximum_out=LONGEST, maximum_qos=2, retain_available=True):
        """The broker takes no more than this."""
        self.maximum_out = maximum_out
        self.maximum_qos = maximum_qos
        self.retain_available = retain_available
        self._lowers = maximum_qos < 2 or not retain_available

    def connect_fields(self, clean_session, will):
        from .connection5 import connect_fields

        return connect_fields(self, clean_session, will)

    # --- rows ---

    def packet_size(self, address, n):
        from .stored5 import packet_size

        return packet_size(self.journal, address)

    def oldest(self):
        if self.aside and self.too_long:
            return self.aside.oldest(self, super().oldest)
        return super().oldest()

    def next_row(self):
        states = self.states
        quota = self.quota
        stopped = self.rows + self.owed > quota and self._unacknowledged() >= quota
        for i in range(min(self.rows, self.reach)):
            state = states[i] & STATE
            if state == REL or state == OWED or (state == SEND and not stopped):
                return i
        self.waiting = stopped
        return -1

    def _unacknowledged(self):
        n = self.owed
        for i in range(self.rows):
            state = self.states[i] & STATE
            if state != SEND and state != REL:
                n += 1
        return n

    # --- a message from the application ---

    def attach(self, properties, now):
        """The next PUBLISH has these properties, None: has none. Raises ValueError."""
        if self.clock:
            self.clock.tick(now)
        if properties is not self._properties or (properties and properties.expiry):
            if not self._do_attach:
                from .properties5 import attach

                self._do_attach = attach
            self._do_attach(self, properties, now)

    def _publish_message(self, name, payload, qos, retain):
        if retain and not qos and not self.retain_available:
            retain = False
            self.lowered = True
        clock = self.clock
        if qos and clock:
            clock.make_space(self, len(name) + len(payload))
        return super()._publish_message(name, payload, qos, retain)

    def put_publish(self, name, payload, qos, retain, mid):
        """As PacketBuffer.put_publish(). At QoS 1 and 2 the fixed header is that of level 4, for the journal, and
        `rest` is the payload; _keep() makes it one of level 5. Raises ValueError if the broker takes no such packet."""
        self.out_size = self._whole
        n = super().put_publish(name, payload, qos, retain, mid)
        whole = self._whole = self.out_size
        if whole > self.maximum_out:
            self.forget()  # repeat() does not ask
            raise ValueError("packet of %d bytes, the broker takes %d" % (whole, self.maximum_out))
        if qos:
            block = len(self.out_block)
            shift = 0
            if whole < 130:
                longer = whole - 2
                self.out[1] = longer - block
            else:
                longer = whole - 1 - digits_in(whole)
                shift = digits_for(longer) - digits_for(longer - block)
                packet.begin(self.out, self.out[0], longer - block, shift)
            self._block_at = self._payload_at - block
            self._shift = shift
            self._remaining = longer if self.rest is None else 0
            self.rest = payload
            self.out_size = whole - block - shift + len(self._trailer)
        return n

    def repeat(self, payload, properties):
        return super().repeat(payload, properties) if properties is self._properties else 0

    def _append(self, mid, dup):
        return self._append_parts(mid, dup, self._block_at, self.rest, self._trailer, self._shift)

    def _keep(self, address):
        if self._remaining:
            self.rest = None
            self.out_size = self._whole
            if self._remaining < 128:
                self.out[1] = self._remaining
            else:
                packet.begin(self.out, self.out[self._shift], self._remaining)
        super()._keep(address)

    # --- going out ---

    def load_publish(self, address, dup):
        """As PacketBuffer.load_publish(). Returns 0 if the message has expired, and cannot have been sent before."""
        buf = self.out
        if address == self._accepted:
            n = super().load_publish(address, dup)
            block = self._block_at
            if buf[block] and not self.is_fresh(block, self._trailer, len(self._trailer) - _STAMP, dup):
                return 0
        else:
            if not self._do_load:
                from .stored5 import resend

                self._do_load = resend
            n = self._do_load(self, address, dup)
        if self._lowers:
            first = wanted = buf[self.out_at]
            if first >> 1 & 3 > self.maximum_qos:
                first ^= 6  # QoS 2 becomes 1 [MQTT5-3.2.2-11]
            if not self.retain_available:
                first &= 0xFE  # [MQTT5-3.2.2-14]
            if first != wanted:
                self.lowered = True
                buf[self.out_at] = first
                self.forget()
        return n

    def is_fresh(self, block, data, stamp, dup):
        """False if the message has expired, and cannot have been sent: its properties are at out[block], the seconds of
        their expiry, if they have any, at data[stamp]."""
        buf = self.out
        return not buf[block] or buf[block + 1] != _EXPIRY or self.clock.count_down(buf, block + 2, data, stamp, dup)

    def _send_message(self, i):
        n = super()._send_message(i)
        while not n:
            from .stored5 import expired

            expired(self, self.addresses[i])
            i = self.next_row()
            if i < 0:
                return 0
            n = super()._send_message(i)
        self._last_mid = self.mids[i]
        if self.view is not self.out:
            self.waiting = True  # a PUBREL has left before others
        return n

    def _select(self):
        if self.pause and passed(self.now, self.paused_at, self.pause):
            self.pause = 0
            self.quota = self.granted_quota
        if self.clock:
            self.clock.tick(self.now)
        goes_on = self.out_left and not self.ready
        if self.auth and self.auth.is_due and not (self.out_left or self.ready):
            n = self.auth.write()
        else:
            n = super()._select()
        if not n:
            if self.now >> 10 == self._second:
                return 0
            self._second = self.now >> 10
            return self._probe() if self.connected and self.rows else 0
        if self.lowered:
            lowered(self)
        if self.view is self.out and not goes_on:
            if self.aliases:
                n = self.aliases.replace(self, n)
            size = n + self.out_left
            if size > self.longest:
                self.longest = size
                self.longest_mid = self._last_mid if 0x31 < self.out[self.out_at] < 0x40 else 0
        return n

    def _probe(self):
        # If the oldest message waits for its acknowledgement for so long, a PINGREQ finds out whether it will come:
        # only a new connection can repeat the message [MQTT5-4.4.0-1].
        state = self.states[0] & STATE
        oldest = self.mids[0] << 3 | state
        if oldest != self._stalling:
            self._stalling = oldest
            self._stalling_since = self.now
            if self.mids[0] != self.stuck:
                self.stall = self.stall_ms
        elif self.stall and state != SEND and state != REL and not self.pinging:
            if passed(self.now, self._stalling_since, self.stall):
                self.probed = oldest
                return self._send_ping()
        return 0

    def _put_ack(self, kind, mid, dup):
        n = super()._put_ack(kind, mid, dup)
        if self._ack_code:
            self.view[1] = 3
            self.view[4] = self._ack_code
            self._ack_code = 0
            n = 5
        return n

    def disconnect(self, code=0):
        super().disconnect()
        if code:
            self.out[1] = 1
            self.out[2] = code
            self.send(3)

    # --- bytes coming in: reason codes, and properties, all of which are checked before their packet counts ---

    def next_packet(self):
        kind = super().next_packet()
        if kind and kind != PUBLISH:
            self.reason_code = self.block = 0
            if self.at < self.start:
                self._read_code(kind)
        return kind

    def _refuse(self, kind, n):
        # Asked at each step of a packet that is longer than the buffer: an error would cost its text each time.
        from .receive5 import too_long

        return too_long(self, kind, n)

    def _check_block(self, i, end, where):
        self.block = i
        if i < end and not self.buf[i]:
            return i + 1
        if where == IN_PUBLISH and self.subscription_identifier(i, end):
            return i + 5
        return self._load_cursor().check(i, end, where)

    def subscription_identifier(self, i, end):
        """The Subscription Identifier of three bytes, as our SUBSCRIBEs have it, if that is the only property of the
        block at buf[i]; else 0. Many messages have no other one, and need no Cursor."""
        buf = self.buf
        if end - i < 5 or buf[i] != 4 or buf[i + 1] != _SUBSCRIPTION or not buf[i + 2] & buf[i + 3] & 0x80:
            return 0
        return buf[i + 2] & 0x7F | (buf[i + 3] & 0x7F) << 7 | buf[i + 4] << 14 if 0 < buf[i + 4] < 0x80 else 0

    def _load_cursor(self):
        if not self.cursor:
            from .cursor import Cursor

            self.cursor = Cursor(self.buf)
        return self.cursor

    def properties(self, where):
        """Returns a Cursor at the beginning of the properties of the last packet. where: as cursor has it."""
        cursor = self._load_cursor()
        cursor.start(self.block, len(self.buf), where)
        return cursor

    def _read_code(self, kind):
        i = self.at
        end = self.start
        if kind == SUBACK or kind == UNSUBACK:
            i = self._check_block(i, end, self.places[kind])
            self.at = i
            self.n = end - i
            if self.n:
                return
            i -= 1  # one code at least
        else:
            if kind == CONNACK:
                i += 1
            self.reason_code = self.buf[i]
            i += 1
            if i < end:
                try:
                    i = self._check_block(i, end, self.places[kind])
                except ProtocolError:
                    if kind != CONNACK or self.reason_code < _FAILURE:
                        raise
                    i = -1
            if kind == CONNACK and i != end and self.reason_code >= _FAILURE:
                self.block = 0  # a refusal, whatever is behind it
                return
        if i != end:
            raise self.fault(kind, 0, self.n)
        if PUBLISH < kind < SUBACK and not self._is_allowed(kind):
            raise self.fault(kind, 0, 0, "invalid reason code %02x" % self.reason_code, packet.ERROR)

    def _is_allowed(self, kind):
        # [MQTT5-3.4.2-1] [MQTT5-3.5.2-1] [MQTT5-3.6.2-1] [MQTT5-3.7.2-1] PUBACK and PUBREC have more codes for failures
        # than brokers keep to.
        code = self.reason_code
        if kind > PUBREC:
            return code == 0 or code == _NOT_FOUND
        return code == 0 or code == _NO_SUBSCRIBERS or code >= _FAILURE

    # PUBLISH: for level 4 the properties are the beginning of the payload.

    def _publish(self, i, n):
        buf = self.buf
        if i + 2 <= self.end and not (buf[i] or buf[i + 1]):
            raise ProtocolError("PUBLISH without topic")  # [MQTT5-3.3.2-1]
        if i - self.start + n > len(buf):
            from .receive5 import publish_long

            return publish_long(self, i, n)
        begin = self.start
        kind = super()._publish(i, n)
        if kind:
            end = self.start
            self.start = begin  # until its properties are known to be in order
            behind = self._check_block(self.at, end, IN_PUBLISH)
            self.start = end
            self.n = self.size = end - behind
            self.at = behind
        return kind

    def _piece(self):
        if self._block_due:
            from .receive5 import properties_arrived

            properties_arrived(self)
        return super()._piece()

    # --- packets coming in ---

    def _handle(self, kind):
        if kind == packet.PUBACK:
            self._handle_ack(kind)
            return
        if kind == PUBLISH:
            if self.flags & 4 and not self.offset and self.rows_in - self.old_received >= self.receive_maximum:
                from .receive5 import check_receive_maximum

                check_receive_maximum(self)
            super()._handle(kind)
            return
        if kind == CONNACK:
            from .connection5 import connack

            connack(self)
            return
        if kind > packet.PINGRESP or self.probed and kind == packet.PINGRESP:
            if kind == packet.PINGRESP:
                super()._handle(kind)
            from .connection5 import disconnected

            disconnected(self, kind)
            return
        if kind == packet.PUBREL:
            if self.row(self.mid, self.limit) < 0:
                self._ack_code = _NOT_FOUND
        elif kind == PUBREC and self.row(self.mid) < 0:
            self._ack_code = _NOT_FOUND
        super()._handle(kind)

    def _handle_ack(self, kind):
        code = self.reason_code
        if self.owed and kind == packet.PUBACK and self.row(self.mid) < 0:
            self.owed -= 1
            self.waiting = True
        if code < _FAILURE or kind == packet.PUBCOMP:
            super()._handle_ack(kind)
            if not self.pause:
                self.last_pause = 0
            if code == _NO_SUBSCRIBERS:
                self.count[counters.UNHEARD] += 1
        else:
            self._ack_code = 0
            rejected(self, kind, code)

    def connection_lost(self, client=None, error=None):
        if self.connected and client:
            try:
                from .connection5 import leave

                leave(self, client, error)
            except Exception:  # connection5 cannot be loaded, for example: the broker is not told why
                pass
        return super().connection_lost(client, error)


# --- the broker refuses a message, or takes less than it asks for ---

_MID_IN_USE = 0x91
_QUOTAS = b"\x93\x97"
_PAUSE_MS = 1000  # the first one, and the longest
_LONGEST_PAUSE_MS = 60_000


def rejected(session, kind, code):
    """PUBACK or PUBREC arrived with this code, a failure: the message is done, or goes out once more as a new one."""
    mid = session.mid
    i = session.row(mid)
    state = session.states[i] & STATE if i >= 0 else SEND
    if session.aliases:
        session.aliases.refused(mid)
    if code == _MID_IN_USE:
        session.ending = BY_CONNECT  # the two sessions disagree
        raise ProtocolError("the broker has another message of Message ID %d" % mid)
    if state == SEND or state == REL:
        session.count[counters.UNKNOWN_ACKS] += 1
    elif state != kind - PUBACK + 1:  # ACK for PUBACK, REC for PUBREC
        raise session.fault(kind, mid)
    elif session.states[i] & GIVEN_UP:
        give_up(session, session.addresses[i])
    elif code in _QUOTAS:
        session.states[i] = SEND
        session.waiting = True
        _hold(session)
    else:
        reason = _reason(session)
        session.count[counters.DROPPED] += 1
        session.count[counters.REJECTED] += 1
        seq = give_up(session, session.addresses[i])
        session.notices += (PublishRefused(code, mid, seq, reason),)


def _reason(session):
    # The text of the acknowledgement that was received, "": it has none.
    if not session.block:
        return ""
    from .cursor import IN_ACK, REASON

    cursor = session.properties(IN_ACK)
    return cursor.text() if cursor.find(REASON) else ""


def _hold(session):
    # All messages of QoS 1 and 2 wait, so that their order is kept; ever longer.
    session.count[counters.HELD] += 1
    if not session.pause:
        session.last_pause = min(2 * session.last_pause, _LONGEST_PAUSE_MS) or _PAUSE_MS
    session.pause = session.last_pause
    session.paused_at = session.now
    session.quota = 0


def lowered(session):
    """A message is sent at a lower QoS, or not retained: perhaps twice is better than never. Told once for a
    connection."""
    session.lowered = False
    session.count[counters.LOWERED] += 1
    if not session.told_lowered:
        session.told_lowered = True
        session.notices += (OSError(EOPNOTSUPP, "the broker takes no QoS 2, or nothing retained: see lowered"),)
