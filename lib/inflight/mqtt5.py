# MQTT 5: what differs from the session of levels 3 and 4, and each message may need. What CONNECT and CONNACK need
# stands in handshake5.
#
# The journal keeps a message as a PUBLISH of level 4 at level 5 too: the level may change while messages wait.
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

import inflight.counters as counters
import inflight.packet as packet

from .compat import const, passed
from .decoder5 import Decoder5
from .outbound import Outbound
from .send_buffer5 import SendBuffer5
from .session import Session
from .states import REL, SEND, STATE

_NO_SUBSCRIBERS = const(0x10)
_FAILURE = const(0x80)
_NOT_FOUND = const(0x92)


class Outbound5(Outbound):
    """An Outbound with a quota: so many messages are unacknowledged, at most."""

    quota = 0
    owed = 0  # PUBACKs of messages that were discarded while they were in flight: they count for the quota
    too_long = 0  # messages behind the window that this connection does not take

    def oldest(self):
        if self.aside and self.too_long:
            return self.aside.oldest(self, super().oldest)
        return super().oldest()

    def next(self):
        states = self.states
        quota = self.quota
        stopped = self.rows + self.owed > quota and self._unacknowledged() >= quota
        for i in range(min(self.rows, self.reach)):
            state = states[i] & STATE
            if state == REL or (state == SEND and not stopped):
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


class Session5(Session):
    """A Session of level 5. session_expiry: seconds that the broker keeps it without a connection; expiry: what the
    broker made of that; adopt: the client id is that of the journal, or the broker assigns one."""

    PARTS = (Decoder5, SendBuffer5, Outbound5)
    counters = 29
    decoder: Decoder5
    out: SendBuffer5
    outbound: Outbound5
    paused_at: int
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
        super().__init__(journal, *args, **options)
        self.interval = self.keep_alive.interval

    def _load(self):
        from .handshake5 import load

        load(self, self._adopt, super()._load)

    def reset(self):
        super().reset()
        self.out.limit()  # nothing of a connection outlives it
        self._ack_code = 0  # of the acknowledgement that is due
        self.told_lowered = False
        self.quota = self.outbound.quota = self.outbound.owed = self.outbound.too_long = 0
        if self.auth:
            self.auth.reset()
        if self.aliases:
            self.aliases.allow(0)
        self.pause = 0  # ms since paused_at until messages may go again
        self.last_pause = 0
        self.old_received = 0  # messages of QoS 2 of earlier connections: those in front in `inbound`
        self.oldest = self.probed = 0  # see _probe()
        self.longest = self.longest_mid = 0  # packet, and its Message ID if it is a PUBLISH of QoS 1 or 2
        self._oldest_since = 0
        self._second = -1  # it is looked at once in about a second

    def connect_fields(self, clean_session, will):
        from .handshake5 import connect_fields

        return connect_fields(self, clean_session, will)

    # --- going out ---

    def _publish_message(self, name, payload, qos, retain):
        if retain and not qos and not self.out.retain_available:
            retain = False
            self.out.lowered = True
        clock = self.out.clock
        if qos and clock:
            clock.make_space(self, len(name) + len(payload))
        return super()._publish_message(name, payload, qos, retain)

    def _send_message(self, i):
        n = super()._send_message(i)
        while not n:
            from .expiry5 import expired

            expired(self, self.outbound.addresses[i])
            i = self.outbound.next()
            if i < 0:
                return 0
            n = super()._send_message(i)
        self._last_mid = self.outbound.mids[i]
        if self.out.view is not self.out.buf:
            self.outbound.waiting = True  # a PUBREL has left before others
        return n

    def _select(self):
        if self.pause and passed(self.now, self.paused_at, self.pause):
            self.pause = 0
            self.outbound.quota = self.quota
        out = self.out
        if out.clock:
            out.clock.tick(self.now)
        goes_on = out.left and not out.ready
        if self.auth and self.auth.is_due and not (out.left or out.ready):
            n = self.auth.write()
        else:
            n = super()._select()
        if not n:
            if self.now >> 10 == self._second:
                return 0
            self._second = self.now >> 10
            return self._probe() if self.connected and self.outbound.rows else 0
        if out.lowered:
            from .refusing5 import lowered

            lowered(self)
        if out.view is out.buf and not goes_on:
            if self.aliases:
                n = self.aliases.replace(out, n)
            size = n + out.left
            if size > self.longest:
                self.longest = size
                self.longest_mid = self._last_mid if 0x31 < out.buf[out.at] < 0x40 else 0
        return n

    def _probe(self):
        # If the oldest message waits for its acknowledgement for so long, a PINGREQ finds out whether it will come:
        # only a new connection can repeat the message [MQTT5-4.4.0-1].
        outbound = self.outbound
        state = outbound.states[0] & STATE
        oldest = outbound.mids[0] << 3 | state
        if oldest != self.oldest:
            self.oldest = oldest
            self._oldest_since = self.now
            if outbound.mids[0] != self.stuck:
                self.stall = self.stall_ms
        elif self.stall and state != SEND and state != REL and not self.keep_alive.pinging:
            if passed(self.now, self._oldest_since, self.stall):
                self.probed = oldest
                return self._send_ping()
        return 0

    def _put_ack(self, kind, mid, dup):
        n = super()._put_ack(kind, mid, dup)
        if self._ack_code:
            self.out.view[1] = 3
            self.out.view[4] = self._ack_code
            self._ack_code = 0
            n = 5
        return n

    def disconnect(self, code=0):
        super().disconnect()
        if code:
            buf = self.out.buf
            buf[1] = 1
            buf[2] = code
            self.out.send(3)

    # --- coming in ---

    def _handle(self, kind):
        if kind == packet.PUBACK:
            self._handle_ack(kind)
            return
        if kind == packet.PUBLISH:
            self._handle_publish()
            return
        mid = self.decoder.mid
        if kind == packet.CONNACK:
            from .handshake5 import connack

            connack(self)
            return
        if kind > packet.PINGRESP or self.probed and kind == packet.PINGRESP:
            if kind == packet.PINGRESP:
                super()._handle(kind)
            from .leaving5 import handle

            handle(self, kind)
            return
        if kind == packet.PUBREL:
            i = self.inbound.row(mid) if self.inbound else -1
            if i < 0:
                self._ack_code = _NOT_FOUND
            elif i < self.old_received:
                self.old_received -= 1
        elif kind == packet.PUBREC and self.outbound.row(mid) < 0:
            self._ack_code = _NOT_FOUND
        super()._handle(kind)

    def _handle_publish(self):
        d = self.decoder
        inbound = self.inbound
        if d.flags & 4 and not d.offset and inbound:
            if self.old_received or inbound.rows >= self.receive_maximum:
                from .inbound5 import arrived

                arrived(self, d.mid)
        super()._handle_publish()

    def _handle_ack(self, kind):
        code = self.decoder.code
        outbound = self.outbound
        if outbound.owed and kind == packet.PUBACK and outbound.row(self.decoder.mid) < 0:
            outbound.owed -= 1
            outbound.waiting = True
        if code < _FAILURE or kind == packet.PUBCOMP:
            super()._handle_ack(kind)
            if not self.pause:
                self.last_pause = 0
            if code == _NO_SUBSCRIBERS:
                self.count[counters.UNHEARD] += 1
        else:
            from .refusing5 import rejected

            self._ack_code = 0
            rejected(self, kind, code)

    def connection_lost(self, client=None, error=None):
        if self.connected and client:
            try:
                from .leaving5 import leave

                leave(self, client, error)
            except Exception:  # leaving5 cannot be loaded, for example: the broker is not told why
                pass
        super().connection_lost(client, error)
