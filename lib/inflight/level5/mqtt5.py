# MQTT 5: what differs from the session of levels 3 and 4.
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

import struct
from errno import EOPNOTSUPP, ETIMEDOUT

import inflight.counters as counters
import inflight.packet as packet

from ..compat import const, passed
from ..counters import STALLS, TAKEN_OVER
from ..journal.records import DONE, OUT, OVERHEAD, RELEASED
from ..packet import (
    CONNACK,
    DISCONNECT,
    LONGEST,
    MALFORMED,
    PINGRESP,
    PUBACK,
    PUBLISH,
    PUBREC,
    SUBACK,
    UNSUBACK,
    ProtocolError,
)
from ..session.refused import Disconnected, PublishRefused
from ..states import (
    BY_CONNECT,
    BY_DISCONNECT,
    CLEAN,
    DUP,
    GIVEN_UP,
    OTHER_SESSION,
    OWED,
    REL,
    SEND,
    STATE,
    TOO_LONG,
    TRIAL,
)
from .connection5 import RECORD
from .cursor import (
    ALIAS_MAXIMUM,
    AUTH_METHOD,
    CLIENT_ID,
    IDENTIFIERS_AVAILABLE,
    IN_CONNACK,
    IN_DISCONNECT,
    IN_PUBLISH,
    MAXIMUM_QOS,
    MAXIMUM_SIZE,
    REASON,
    RECEIVE_MAXIMUM,
    RESPONSE_INFORMATION,
    RETAIN_AVAILABLE,
    SERVER_KEEP_ALIVE,
    SERVER_REFERENCE,
    SESSION_EXPIRY,
    digits_for,
    digits_in,
)
from .receive5 import LongPackets

_NEVER = const(-0x10000000)
_NO_SUBSCRIBERS = const(0x10)
_FAILURE = const(0x80)
_NOT_FOUND = const(0x92)
_SUBSCRIPTION = const(0x0B)  # the properties
_EXPIRY = const(2)
_STAMP = const(4)  # bytes
_GROWTH = const(2)  # bytes of length that a packet without properties has more than its record, at most
_OF_LEVEL_4 = b"\x00\x84\x85\x88\x86\x87"  # what its return codes are at level 5
_NUMBERS = (
    SESSION_EXPIRY,
    SERVER_KEEP_ALIVE,
    RECEIVE_MAXIMUM,
    ALIAS_MAXIMUM,
    MAXIMUM_QOS,
    RETAIN_AVAILABLE,
    MAXIMUM_SIZE,
    IDENTIFIERS_AVAILABLE,
)
_END = b"\x07\x00\x05\x11\x00\x00\x00\x00"  # what stands behind the type of a DISCONNECT: Session Expiry Interval 0
_SESSION_TAKEN_OVER = 0x8E
_CODES = b"\x80\x81\x82\x83\x87\x89\x8b\x8d\x8e\x8f\x90\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\xa1\xa2"
_LONGEST_STALL_MS = const(3_600_000)
_MID_IN_USE = const(0x91)
_QUOTAS = b"\x93\x97"
_PAUSE_MS = const(1000)  # the first one, and the longest
_LONGEST_PAUSE_MS = const(60_000)


class Session5(LongPackets):
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
        self._load_at_level_5()

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
        return self._fields_of_connect(clean_session, will)

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
            self.drop_expired_message(self.addresses[i])
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
            self.note_lowered()
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
        return self.packet_too_long(kind, n)

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
            return self.publish_long(i, n)
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
            self.properties_arrived()
        return super()._piece()

    # --- packets coming in ---

    def _handle(self, kind):
        if kind == packet.PUBACK:
            self._handle_ack(kind)
            return
        if kind == PUBLISH:
            if self.flags & 4 and not self.offset and self.rows_in - self.old_received >= self.receive_maximum:
                self.check_receive_maximum()
            super()._handle(kind)
            return
        if kind == CONNACK:
            self._receive_connack5()
            return
        if kind > packet.PINGRESP or self.probed and kind == packet.PINGRESP:
            if kind == packet.PINGRESP:
                super()._handle(kind)
            self._receive_disconnect(kind)
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
            self.take_failure(kind, code)

    def connection_lost(self, client=None, error=None):
        if self.connected and client:
            try:
                self._leave_broker(client, error)
            except Exception:  # the method cannot be loaded, for example: the broker is not told why
                pass
        return super().connection_lost(client, error)

    # --- a start, and CONNECT ---

    def _load_at_level_5(self):
        # Builds what the journal knows.
        journal = self.journal
        # There is space for as many again: those of an earlier connection do not count for the broker.
        self.receive_maximum = self.receive_maximum or min(self.most_in, 65535)
        self.most_in = 2 * self.receive_maximum
        if self._adopt and journal:
            from .connection5 import stored_client_id

            self.client_id = stored_client_id(journal)
        self._load_journal()
        if journal and not self.clock:
            from .stored5 import Seconds, newest

            seconds = newest(journal)
            if seconds >= 0:
                self.clock = Seconds(seconds)

    def _fields_of_connect(self, clean_session, will):
        """Returns the flag Clean Start of the next CONNECT, and the properties of it and of its will."""
        self.keep_alive = self.wanted_keep_alive  # the broker may have changed it for the last connection
        known = self.journal or self.known
        self.clean_start = clean_session or self.ending == BY_CONNECT or not known
        return self.clean_start, self._connect_blocks(clean_session, will)

    def _connect_blocks(self, clean_session, will):
        data = struct.pack(">BH", RECEIVE_MAXIMUM, self.receive_maximum) + self.connect_properties
        if not clean_session:
            data += struct.pack(">BI", SESSION_EXPIRY, self.session_expiry)
        block = self.auth.connect_block(data) if self.auth else bytes((len(data),)) + data
        return block, will[4] if will else b""

    # --- CONNACK ---
    # Clean Start is 0 if there is a journal: a broker may lose a session that began so when it restarts. If the broker
    # has a session that the journal does not know, the client ends it [MQTT5-3.2.2-4].
    #
    # If the broker has none of a session that the client has [MQTT5-3.2.2-5], then a message that
    #
    #   was never sent      is sent
    #   waits for PUBACK    is sent as a new one, without DUP; counted as republished
    #   waits for PUBREC    likewise; a broker that took it, and lost the session, has it twice
    #   is past PUBREC      is done: the broker has it; counted as orphaned
    #
    # and the Message IDs that were received are forgotten.

    def _receive_connack5(self):
        """CONNACK arrived. Raises ProtocolError, OSError if flash fails."""
        present = self.buf[self.at]
        code = self.reason_code
        if not self.block and 0 < code < 6:  # the answer of a broker that does not know level 5 has no properties
            code = _OF_LEVEL_4[code]
        if code >= _FAILURE:
            present = 0  # a refusal, whatever else the packet says
        elif present > 1:
            raise ProtocolError("invalid flags %02x in CONNACK" % present, MALFORMED)
        elif code or not self.block or (present and self.clean_start):
            raise ProtocolError("CONNACK with session present %d, code %02x" % (present, code))
        self.code = code
        if present and self.journal and (self.record_at < 0 or self.mode == CLEAN):
            self._end_other_session()
            return
        self.present = present == 1
        found = self._connack_properties(code or self.auth)
        self.reason = found.get(REASON, "")
        self.response_information = found.get(RESPONSE_INFORMATION, "")
        if code:
            self.count[counters.REFUSED] += 1
            return
        if self.auth:
            self.auth.consented(IN_CONNACK)
        if not self.client_id:
            self._check_client_id(found.get(CLIENT_ID))
        if self.is_lost(not present):
            self.ended = self._republish()
            self.count[counters.COMPLETED] += len(self.ended)
        self.accept_connection(not present)
        self._apply_connack(found)
        if self.journal:
            self._set_long_ones_aside()
        self.cursor = None  # most messages have no properties

    def _check_client_id(self, client_id):
        # The broker assigned it. It has to fit the next CONNECT, and the journal at the next start. [MQTT5-3.1.3-7]
        if not client_id:
            raise ProtocolError("the broker assigned no client id")
        journal = self.journal
        n = len(client_id)
        # The longest fixed header has 3 bytes more than the shortest. Nothing longer than CONNECT has been sent.
        left = journal.reserve - 2 * journal.cost(RECORD + n) - self.receive_maximum * OVERHEAD if journal else 0
        if n > len(self.out) - 3 - self.longest or left < 0:
            raise ProtocolError("a client id of %d bytes was assigned, too long for the buffer or the journal" % n)

    def _connack_properties(self, asked):
        # {id: value} of those that count. asked: for a method of authentication.
        found = {}
        if not self.block:
            return found
        cursor = self.properties(IN_CONNACK)
        kind = cursor.next()
        while kind:
            if kind == AUTH_METHOD and not asked:
                raise ProtocolError("an authentication method, but none was asked for")  # [MQTT5-4.12.0-6]
            if kind in _NUMBERS:
                found[kind] = cursor.number()
            elif kind == CLIENT_ID:
                found[kind] = cursor.data()
            elif kind == REASON or kind == RESPONSE_INFORMATION:
                found[kind] = cursor.text()
            kind = cursor.next()
        return found

    def _apply_connack(self, found):
        self.ending = 0
        self.known = not self.clean
        self.expiry = 0 if self.clean else found.get(SESSION_EXPIRY, self.session_expiry)
        quota = min(self.limit, found.get(RECEIVE_MAXIMUM, 65535))
        maximum = found.get(MAXIMUM_SIZE, self.maximum_out)
        self.broker_takes(maximum, found.get(MAXIMUM_QOS, 2), found.get(RETAIN_AVAILABLE, 1) == 1)
        if not self.maximum_qos:
            quota = 0  # what has to arrive waits for another broker
            self.notices += (OSError(EOPNOTSUPP, "the broker takes QoS 0 only: messages of QoS 1 and 2 wait"),)
        self.identifiers = found.get(IDENTIFIERS_AVAILABLE, 1) == 1
        self.quota = self.granted_quota = quota
        if self.aliases:
            self.aliases.allow(found.get(ALIAS_MAXIMUM, 0))
        if SERVER_KEEP_ALIVE in found:
            interval = found[SERVER_KEEP_ALIVE] * 750
            self.keep_alive = interval
            self.tick = min(self.tick, interval * 2 // 15 or 1000)
        if not (self.client_id or self.clean):
            self.client_id = found[CLIENT_ID]
            self.record_stale = True  # it is durable before the first message leaves

    def _republish(self):
        self.sent_below = 0
        ended = self._orphans_behind()
        self.count[counters.ORPHANED] += len(ended)
        for i in range(self.rows - 1, -1, -1):
            state = self.states[i]
            if state & STATE >= REL or state & GIVEN_UP:
                if not state & GIVEN_UP:
                    ended.append(self.mids[i])
                    self.count[counters.ORPHANED] += 1
                self.finish(i)
            elif state & (STATE | DUP) != SEND:
                self.states[i] = state & TRIAL
                self.count[counters.REPUBLISHED] += 1
        if self.aside:
            self.aside.session_lost()
        return ended

    def _orphans_behind(self):
        # Those past PUBREC that are set aside, or of a life with a larger window: behind this one, they would enter it
        # as if the broker knew them.
        journal = self.journal
        ended = []
        at = journal.scan(OUT, -1) if self.queued or self.aside else -1
        while at >= 0:
            if journal.found_state & RELEASED and self.row_at(at) < 0:
                ended.append(journal.found_mid)
                journal.mark(at, DONE)
                if journal.found_seq >= self.seq:
                    self.queued -= 1
            at = journal.scan(OUT, at)
        return ended

    def _set_long_ones_aside(self):
        # Messages that are too long for this broker [MQTT5-3.2.2-15]: now those in flight, and each of the others when
        # its turn comes.
        journal = self.journal
        most = self.maximum_out
        if most >= journal.largest + 2:
            return
        from .stored5 import packet_size

        at = journal.scan(OUT, -1)
        while at >= 0:
            if not journal.found_state & RELEASED and packet_size(journal, at) > most:
                i = self.row_at(at)
                if i >= 0:
                    self.put_aside(i, TOO_LONG)
                elif journal.found_seq >= self.seq:
                    self.make_aside()
                    self.too_long += 1
            at = journal.scan(OUT, at)
        self.refill()

    def _end_other_session(self):
        """CONNACK tells of such a session: a DISCONNECT ends it. If that is lost, the next CONNECT does it."""
        self.ending = BY_CONNECT if self.ending else BY_DISCONNECT
        self.code = OTHER_SESSION
        self.disconnect()
        self.out[1 : 1 + len(_END)] = _END
        self.send(1 + len(_END))

    # --- DISCONNECT: that of the broker, ours after an error of the broker; a broker that does not acknowledge ---

    def _receive_disconnect(self, kind):
        """DISCONNECT or AUTH arrived, or PINGRESP after a message has waited for long. Raises Disconnected,
        ProtocolError, OSError. [MQTT5-3.14.2-1]"""
        code = self.reason_code
        if kind == PINGRESP:
            self._look_for_progress()
            return
        if kind != DISCONNECT:
            if not self.auth:
                raise ProtocolError("AUTH, but no authentication method")  # [MQTT5-4.12.0-6]
            self.auth.received()
            return
        if code and code not in _CODES:
            raise ProtocolError("invalid reason code %02x in DISCONNECT" % code)
        reason = reference = ""
        if self.block:
            cursor = self.properties(IN_DISCONNECT)
            found = cursor.next()
            while found:
                if found == REASON:
                    reason = cursor.text()
                elif found == SERVER_REFERENCE:
                    reference = cursor.text()
                found = cursor.next()
        if code == _SESSION_TAKEN_OVER:
            self.count[TAKEN_OVER] += 1
        elif code == TOO_LONG:
            self._set_longest_aside()
        self.busy = False  # nothing is half done
        raise Disconnected(code, reason, reference)

    def _set_longest_aside(self):
        # A packet was too long for the broker, which may not have said how much it takes. The longest one of this
        # connection was, for certain.
        i = self.row(self.longest_mid)
        if i < 0 or not SEND < self.states[i] & STATE < REL:
            return  # it has no Message ID, or the broker has taken it
        self.put_aside(i, TOO_LONG)
        self.aside.failed(self.now)

    def _look_for_progress(self):
        # The broker answers, so the link is in order; the oldest message was acknowledged meanwhile, or it is stuck.
        # Each time without progress the client is more patient.
        probed = self.probed
        self.probed = 0
        if self.rows and probed == self.mids[0] << 3 | self.states[0] & STATE:
            self.count[STALLS] += 1
            self.stuck = self.mids[0]
            self.stall = max(self.stall_ms, min(2 * self.stall, _LONGEST_STALL_MS))
            self.busy = False  # nothing is half done
            raise OSError(ETIMEDOUT, "message %d is not acknowledged within stall_ms: it goes out again" % self.stuck)

    def _leave_broker(self, client, error):
        """`error` ends the connection. The broker is told if it broke the protocol [MQTT5-4.13.1-1]."""
        if not isinstance(error, ProtocolError):
            client._slow_down(getattr(error, "code", 0))
            return
        if client._out_left:
            return  # nobody understands a DISCONNECT within another packet
        self.disconnect(error.reason_code)
        try:
            client._write()
        except Exception:
            pass  # it is gone already

    def drop_expired_message(self, address):
        """Drops the message of the record at `address`."""

        self.give_up(address)
        self.count[counters.DROPPED] += 1
        self.count[counters.EXPIRED] += 1

    # --- the broker refuses a message, or takes less than it asks for ---

    def take_failure(self, kind, code):
        """PUBACK or PUBREC arrived with this code, a failure: the message is done, or goes out once more as a new
        one."""
        mid = self.mid
        i = self.row(mid)
        state = self.states[i] & STATE if i >= 0 else SEND
        if self.aliases:
            self.aliases.refused(mid)
        if code == _MID_IN_USE:
            self.ending = BY_CONNECT  # the two sessions disagree
            raise ProtocolError("the broker has another message of Message ID %d" % mid)
        if state == SEND or state == REL:
            self.count[counters.UNKNOWN_ACKS] += 1
        elif state != kind - PUBACK + 1:  # ACK for PUBACK, REC for PUBREC
            raise self.fault(kind, mid)
        elif self.states[i] & GIVEN_UP:
            self.give_up(self.addresses[i])
        elif code in _QUOTAS:
            self.states[i] = SEND
            self.waiting = True
            self._hold_messages()
        else:
            reason = self._read_reason()
            self.count[counters.DROPPED] += 1
            self.count[counters.REJECTED] += 1
            seq = self.give_up(self.addresses[i])
            self.notices += (PublishRefused(code, mid, seq, reason),)

    def _read_reason(self):
        # The text of the acknowledgement that was received, "": it has none.
        if not self.block:
            return ""
        from .cursor import IN_ACK, REASON

        cursor = self.properties(IN_ACK)
        return cursor.text() if cursor.find(REASON) else ""

    def _hold_messages(self):
        # All messages of QoS 1 and 2 wait, so that their order is kept; ever longer.
        self.count[counters.HELD] += 1
        if not self.pause:
            self.last_pause = min(2 * self.last_pause, _LONGEST_PAUSE_MS) or _PAUSE_MS
        self.pause = self.last_pause
        self.paused_at = self.now
        self.quota = 0

    def note_lowered(self):
        """A message is sent at a lower QoS, or not retained: perhaps twice is better than never. Told once for a
        connection."""
        self.lowered = False
        self.count[counters.LOWERED] += 1
        if not self.told_lowered:
            self.told_lowered = True
            self.notices += (OSError(EOPNOTSUPP, "the broker takes no QoS 2, or nothing retained: see lowered"),)
