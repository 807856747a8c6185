# How a connection begins and ends at level 5: CONNECT and CONNACK, what differs when a client is made, and DISCONNECT.
#
# Clean Start is 0 if there is a journal: a broker may lose a session that began so when it restarts. If the broker
# has a session that the journal does not know, the client ends it [MQTT5-3.2.2-4]: see below.
#
# If the broker has none of a session that the client has [MQTT5-3.2.2-5], then a message that
#
#   was never sent      is sent
#   waits for PUBACK    is sent as a new one, without DUP; counted as republished
#   waits for PUBREC    likewise; a broker that took it, and lost the session, has it twice
#   is past PUBREC      is done: the broker has it; counted as orphaned
#
# and the Message IDs that were received are forgotten.

import struct
from errno import EOPNOTSUPP, ETIMEDOUT

import inflight.counters as counters

from ..compat import const, passed, ticks_ms
from ..counters import STALLS, TAKEN_OVER
from ..journal.records import DONE, OUT, OVERHEAD, RELEASED, SESSION
from ..packet import DISCONNECT, MALFORMED, PINGRESP, ProtocolError
from ..session.refused import Disconnected, slow_down
from ..states import (
    BY_CONNECT,
    BY_DISCONNECT,
    CLEAN,
    DUP,
    GIVEN_UP,
    MOST_INFLIGHT,
    OTHER_SESSION,
    POLL,
    REL,
    SEND,
    STATE,
    TOO_LONG,
    TRIAL,
    UP,
)
from .cursor import (
    ALIAS_MAXIMUM,
    AUTH_METHOD,
    CLIENT_ID,
    IDENTIFIERS_AVAILABLE,
    IN_CONNACK,
    IN_DISCONNECT,
    MAXIMUM_QOS,
    MAXIMUM_SIZE,
    REASON,
    RECEIVE_MAXIMUM,
    RESPONSE_INFORMATION,
    RETAIN_AVAILABLE,
    SERVER_KEEP_ALIVE,
    SERVER_REFERENCE,
    SESSION_EXPIRY,
)

_FAILURE = const(0x80)
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
_RECORD = const(11)  # bytes of a SESSION record in front of the client id
LONGEST_STALL_MS = const(86_400_000)  # time-outs longer than a quarter of it look for no stalled messages


# --- the client ---


def check(session_expiry, clean_session, stall_ms, max_inflight, retry_ms, timeout_ms):
    """What options does not: arguments that do not go together. Raises ValueError."""
    if clean_session and session_expiry:
        raise ValueError("session_expiry: clean_session=True keeps no session")
    if stall_ms and not 4 * timeout_ms <= stall_ms <= LONGEST_STALL_MS:
        raise ValueError("stall_ms is 0 (never), or at least four times timeout_ms and at most a day")
    if max_inflight > MOST_INFLIGHT:
        raise ValueError("level 5: max_inflight is %d at most" % MOST_INFLIGHT)
    if retry_ms:
        raise ValueError("level 5 repeats nothing on the same connection [MQTT5-4.4.0-1]: retry_ms is 0")


def load(session, adopt, load_journal):
    """Builds what the journal knows. load_journal: of Session."""
    journal = session.journal
    # There is space for as many again: those of an earlier connection do not count for the broker.
    session.receive_maximum = session.receive_maximum or min(session.most_in, 65535)
    session.most_in = 2 * session.receive_maximum
    if adopt and journal:
        session.client_id = stored_client_id(journal)
    load_journal()
    if journal and not session.clock:
        from .stored5 import Seconds, newest

        seconds = newest(journal)
        if seconds >= 0:
            session.clock = Seconds(seconds)


def stored_client_id(journal):
    """Returns the client id that `journal` serves, b"" if none. Raises OSError."""
    found = b""
    nameless = []
    at = journal.scan(SESSION, -1)
    while at >= 0:
        body = bytearray(journal.found_len)
        journal.read(at, 0, body)
        found = bytes(body[_RECORD:]) or found
        if len(body) == _RECORD:
            nameless.append(at)
        at = journal.scan(SESSION, at)
    if found:
        for at in nameless:  # the id was assigned since, and power was cut before they were marked
            journal.mark(at, DONE)
    return found


# --- CONNECT ---


def connect_fields(session, clean_session, will):
    """Returns the flag Clean Start of the next CONNECT, and the properties of it and of its will."""
    session.keep_alive = session.wanted_keep_alive  # the broker may have changed it for the last connection
    known = session.journal or session.known
    session.clean_start = clean_session or session.ending == BY_CONNECT or not known
    return session.clean_start, _connect_blocks(session, clean_session, will)


def _connect_blocks(session, clean_session, will):
    data = struct.pack(">BH", RECEIVE_MAXIMUM, session.receive_maximum) + session.connect_properties
    if not clean_session:
        data += struct.pack(">BI", SESSION_EXPIRY, session.session_expiry)
    block = session.auth.connect_block(data) if session.auth else bytes((len(data),)) + data
    return block, will[4] if will else b""


# --- CONNACK ---


def connack(session):
    """CONNACK arrived. Raises ProtocolError, OSError if flash fails."""
    present = session.buf[session.at]
    code = session.reason_code
    if not session.block and 0 < code < 6:  # the answer of a broker that does not know level 5 has no properties
        code = _OF_LEVEL_4[code]
    if code >= _FAILURE:
        present = 0  # a refusal, whatever else the packet says
    elif present > 1:
        raise ProtocolError("invalid flags %02x in CONNACK" % present, MALFORMED)
    elif code or not session.block or (present and session.clean_start):
        raise ProtocolError("CONNACK with session present %d, code %02x" % (present, code))
    session.code = code
    if present and session.journal and (session.record_at < 0 or session.mode == CLEAN):
        end_other_session(session)
        return
    session.present = present == 1
    found = _properties(session, code or session.auth)
    session.reason = found.get(REASON, "")
    session.response_information = found.get(RESPONSE_INFORMATION, "")
    if code:
        session.count[counters.REFUSED] += 1
        return
    if session.auth:
        session.auth.consented(IN_CONNACK)
    if not session.client_id:
        _check_client_id(session, found.get(CLIENT_ID))
    from ..session.connect import accepted, is_lost

    if is_lost(session, not present):
        session.ended = _republish(session)
        session.count[counters.COMPLETED] += len(session.ended)
    accepted(session, not present)
    _apply(session, found)
    if session.journal:
        _set_long_ones_aside(session)
    session.cursor = None  # most messages have no properties


def _check_client_id(session, client_id):
    # The broker assigned it. It has to fit the next CONNECT, and the journal at the next start. [MQTT5-3.1.3-7]
    if not client_id:
        raise ProtocolError("the broker assigned no client id")
    journal = session.journal
    n = len(client_id)
    # The longest fixed header has 3 bytes more than the shortest. Nothing longer than CONNECT has been sent.
    left = journal.reserve - 2 * journal.cost(_RECORD + n) - session.receive_maximum * OVERHEAD if journal else 0
    if n > len(session.out) - 3 - session.longest or left < 0:
        raise ProtocolError("a client id of %d bytes was assigned, too long for the buffer or the journal" % n)


def _properties(session, asked):
    # {id: value} of those that count. asked: for a method of authentication.
    found = {}
    if not session.block:
        return found
    cursor = session.properties(IN_CONNACK)
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


def _apply(session, found):
    session.ending = 0
    session.known = not session.clean
    session.expiry = 0 if session.clean else found.get(SESSION_EXPIRY, session.session_expiry)
    quota = min(session.limit, found.get(RECEIVE_MAXIMUM, 65535))
    maximum = found.get(MAXIMUM_SIZE, session.maximum_out)
    session.broker_takes(maximum, found.get(MAXIMUM_QOS, 2), found.get(RETAIN_AVAILABLE, 1) == 1)
    if not session.maximum_qos:
        quota = 0  # what has to arrive waits for another broker
        session.notices += (OSError(EOPNOTSUPP, "the broker takes QoS 0 only: messages of QoS 1 and 2 wait"),)
    session.identifiers = found.get(IDENTIFIERS_AVAILABLE, 1) == 1
    session.quota = session.granted_quota = quota
    if session.aliases:
        session.aliases.allow(found.get(ALIAS_MAXIMUM, 0))
    if SERVER_KEEP_ALIVE in found:
        interval = found[SERVER_KEEP_ALIVE] * 750
        session.keep_alive = interval
        session.tick = min(session.tick, interval * 2 // 15 or 1000)
    if not (session.client_id or session.clean):
        session.client_id = found[CLIENT_ID]
        session.record_stale = True  # it is durable before the first message leaves


def _republish(session):
    session.sent_below = 0
    ended = _orphans_behind(session)
    session.count[counters.ORPHANED] += len(ended)
    for i in range(session.rows - 1, -1, -1):
        state = session.states[i]
        if state & STATE >= REL or state & GIVEN_UP:
            if not state & GIVEN_UP:
                ended.append(session.mids[i])
                session.count[counters.ORPHANED] += 1
            session.finish(i)
        elif state & (STATE | DUP) != SEND:
            session.states[i] = state & TRIAL
            session.count[counters.REPUBLISHED] += 1
    if session.aside:
        session.aside.session_lost()
    return ended


def _orphans_behind(session):
    # Those past PUBREC that are set aside, or of a life with a larger window: behind this one, they would enter it as
    # if the broker knew them.
    journal = session.journal
    ended = []
    at = journal.scan(OUT, -1) if session.queued or session.aside else -1
    while at >= 0:
        if journal.found_state & RELEASED and session.row_at(at) < 0:
            ended.append(journal.found_mid)
            journal.mark(at, DONE)
            if journal.found_seq >= session.seq:
                session.queued -= 1
        at = journal.scan(OUT, at)
    return ended


def _set_long_ones_aside(session):
    # Messages that are too long for this broker [MQTT5-3.2.2-15]: now those in flight, and each of the others when its
    # turn comes.
    journal = session.journal
    most = session.maximum_out
    if most >= journal.largest + 2:
        return
    from .stored5 import packet_size

    at = journal.scan(OUT, -1)
    while at >= 0:
        if not journal.found_state & RELEASED and packet_size(journal, at) > most:
            from ..session.pending import set_aside, set_aside_of

            i = session.row_at(at)
            if i >= 0:
                set_aside(session, i, TOO_LONG)
            elif journal.found_seq >= session.seq:
                set_aside_of(session)
                session.too_long += 1
        at = journal.scan(OUT, at)
    session.refill()


# --- a session that the client does not know ---
# The client ends it [MQTT5-3.2.2-4]: by DISCONNECT,
# and if it is still there on the next connection, by Clean Start.

_END = b"\x07\x00\x05\x11\x00\x00\x00\x00"  # what stands behind the type of a DISCONNECT: Session Expiry Interval 0


def end_other_session(session):
    """CONNACK tells of such a session: a DISCONNECT ends it. If that is lost, the next CONNECT does it."""
    session.ending = BY_CONNECT if session.ending else BY_DISCONNECT
    session.code = OTHER_SESSION
    session.disconnect()
    session.out[1 : 1 + len(_END)] = _END
    session.send(1 + len(_END))


def leave_other_session(client):
    """Waits until the broker has closed the connection on which that was sent: one that is closed while the broker
    still sends may break before the broker has read it. For handshake.steps()."""
    ending = client._transport = _Ending(client._transport, client._timeout_ms // 2)
    while not ending.closed:
        yield POLL
    ending.close()
    client._transport = None


class _Ending:
    # The transport of a connection that ends, for `ms` at most: what still comes is thrown away.

    def __init__(self, transport, ms):
        self._transport = transport
        self.file = transport.file
        self.send = transport.send
        self.close = transport.close
        self._ms = ms
        self._since = ticks_ms()
        self.closed = False

    def receive(self, view, space):
        self._try(self._transport.receive, view, space)
        return 0

    def wait(self, ms, write=False):
        self._try(self._transport.wait, ms, write)

    def _try(self, step, *args):
        try:
            step(*args)
        except (OSError, ProtocolError):
            self.closed = True
        if passed(ticks_ms(), self._since, self._ms):
            self.closed = True


# --- DISCONNECT ---
# That of the broker, ours after an error of the broker, and a broker that does not acknowledge a message.

_SESSION_TAKEN_OVER = 0x8E
_CODES = b"\x80\x81\x82\x83\x87\x89\x8b\x8d\x8e\x8f\x90\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\xa1\xa2"
_LONGEST_STALL_MS = const(3_600_000)


def disconnected(session, kind):
    """DISCONNECT or AUTH arrived, or PINGRESP after a message has waited for long. Raises Disconnected, ProtocolError,
    OSError. [MQTT5-3.14.2-1]"""
    code = session.reason_code
    if kind == PINGRESP:
        _look_for_progress(session)
        return
    if kind != DISCONNECT:
        if not session.auth:
            raise ProtocolError("AUTH, but no authentication method")  # [MQTT5-4.12.0-6]
        session.auth.received()
        return
    if code and code not in _CODES:
        raise ProtocolError("invalid reason code %02x in DISCONNECT" % code)
    reason = reference = ""
    if session.block:
        cursor = session.properties(IN_DISCONNECT)
        found = cursor.next()
        while found:
            if found == REASON:
                reason = cursor.text()
            elif found == SERVER_REFERENCE:
                reference = cursor.text()
            found = cursor.next()
    if code == _SESSION_TAKEN_OVER:
        session.count[TAKEN_OVER] += 1
    elif code == TOO_LONG:
        _set_longest_aside(session)
    session.busy = False  # nothing is half done
    raise Disconnected(code, reason, reference)


def _set_longest_aside(session):
    # A packet was too long for the broker, which may not have said how much it takes. The longest one of this
    # connection was, for certain.
    i = session.row(session.longest_mid)
    if i < 0 or not SEND < session.states[i] & STATE < REL:
        return  # it has no Message ID, or the broker has taken it
    from ..session.pending import set_aside

    set_aside(session, i, TOO_LONG)
    session.aside.failed(session.now)


def _look_for_progress(session):
    # The broker answers, so the link is in order; the oldest message was acknowledged meanwhile, or it is stuck. Each
    # time without progress the client is more patient.
    probed = session.probed
    session.probed = 0
    if session.rows and probed == session.mids[0] << 3 | session.states[0] & STATE:
        session.count[STALLS] += 1
        session.stuck = session.mids[0]
        session.stall = max(session.stall_ms, min(2 * session.stall, _LONGEST_STALL_MS))
        session.busy = False  # nothing is half done
        raise OSError(ETIMEDOUT, "message %d is not acknowledged within stall_ms: it goes out again" % session.stuck)


def leave(session, client, error):
    """`error` ends the connection. The broker is told if it broke the protocol [MQTT5-4.13.1-1]."""
    if not isinstance(error, ProtocolError):
        slow_down(client, getattr(error, "code", 0))
        if client._state < UP:  # in the same bytes as CONNACK: connect() may be called at once
            client._back_off(ticks_ms())
            client._attempts -= 1
        return
    if client._out_left:
        return  # nobody understands a DISCONNECT within another packet
    session.disconnect(error.reason_code)
    try:
        client._write()
    except Exception:
        pass  # it is gone already
