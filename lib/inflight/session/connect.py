# CONNECT and CONNACK, and what follows from the second one at each level; and which message ends the connections.

import inflight.counters as counters

from ..compat import const, copy
from ..journal.records import DONE
from ..packet import ProtocolError, begin, put_string
from ..states import CLEAN, DUP, ENDING, PERSISTENT, REL, SEND, STATE, SUSPECT, TRIAL


def resume(session):
    """Session.resume(). The record is written here, for all that this connection sends: where a message leaves, perhaps
    for a publish() within a callback, a board has too little stack left for that."""
    session.begin()
    journal = session.journal
    if journal:
        if session.quota:
            if session.below_stale:
                session.below_stale = False
                session.below = journal.next_seq
                session.record_stale = True
            # Those that were set aside, or will be on this connection, can be in front of those in flight.
            aside = journal.live - session.rows - session.queued + session.too_long
            session.most = max(session.most, session.limit + aside)
        if session.record_stale or session.recorded_most < session.most:
            from .record import write as write_record

            write_record(session, session.most)
        journal.commit()
    session.retransmit()
    session.resumed = DUP if session.quota else 1  # 0: the broker takes QoS 0 only
    session.busy = False


def connect(session, now, clean_session, keepalive, user, password, will):
    """Session.connect()."""
    session.begin()
    session.reset()
    session.holds_journal = True  # until the next reset()
    session.send(write(session, clean_session, keepalive, user, password, will))
    session.clean = clean_session
    session.code = 0
    session.restart_timers(now)
    if session.aside or session.strikes:
        from .pending import set_aside_of

        set_aside_of(session).begin(session)
    if clean_session and session.record_at >= 0 and session.mode == PERSISTENT:
        session.mode = ENDING
        from .record import write as write_record

        write_record(session, session.most)
    session.busy = False


def write(session, clean_session, keepalive, user, password, will):
    """Puts the CONNECT of `session` into its send buffer; connect_packet() tells the arguments. Returns its length.
    Raises ValueError if it does not fit."""
    level = session.protocol_level
    clean_start, blocks = session.connect_fields(clean_session, will)
    return connect_packet(session.out, level, session.client_id, clean_start, keepalive, user, password, will, blocks)


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


def connack(session):
    """CONNACK arrived. Raises ProtocolError, OSError if flash fails."""
    # At level 3 byte 1 is reserved: the client goes on as if the broker knew the session.
    present = session.buf[session.at] if session.protocol_level > 3 else 0
    session.code = session.buf[session.at + 1]
    if session.code:  # a refusal, whatever else the packet says: a broker of level 5 alone has another one
        session.present = False
        session.count[counters.REFUSED] += 1
        return
    if present > 1 or session.n > 2 or (present and session.clean):
        raise ProtocolError("CONNACK with session present %d, code %d, length %d" % (present, session.code, session.n))
    session.present = present == 1
    none = not present and session.protocol_level > 3
    if is_lost(session, none):
        from .drop import session_lost

        session.ended = session_lost(session)
        session.count[counters.COMPLETED] += len(session.ended)
    accepted(session, none)


def is_lost(session, none):
    """True if the broker has lost our session: none: it says that it has none."""
    return none and not session.clean and session.mode != CLEAN and session.mode != ENDING


def accepted(session, none):
    """CONNACK says that the connection stands. none: the broker says that it has no session of ours."""
    session.connected = True
    session.count[counters.CONNECTS] += 1
    mode = session.mode
    new = session.clean or none or mode == CLEAN
    if new and session.rows_in:  # the broker's ids begin anew
        for i in range(session.limit, session.limit + session.rows_in):
            session.load_receiving().mark(session, i, DONE)
        session.rows_in = 0
    session.old_received = session.rows_in
    if mode == CLEAN or (mode == ENDING and new):
        from .drop import discard

        session.count[counters.DROPPED] += discard(session)
    if new:
        session.foreign = None
        session.record_stale = session.record_stale or session.unproven > 0
        session.unproven = 0
    elif session.journal and session.record_at < 0:
        from .record import oldest_mid, suspect

        suspect(session, oldest_mid(session))
    session.mode = PERSISTENT
    if session.clean:
        session.mode = CLEAN
        # What left earlier belongs to sessions that have ended: from now on no more than the window can leave.
        session.most = session.limit
    if session.mode != mode or session.record_at < 0:
        session.record_stale = True


# --- which message ends the connections? ---
# Asked when one has ended before a message that was sent was acknowledged.
#
#   strikes
#   0         `suspected` is the message that was the oldest when the last connection ended; or, after a restart, which
#             may have left before
#   1         twice in a row it was the same one. The next connections: when a PINGREQ was answered, so that neither the
#             network nor a subscription is the reason, the oldest message is sent alone. Each that is acknowledged is
#             followed by the next one that had left before; with the first one that had not, all go again
#   2, 3, 4   so often, less one, a connection ended with a message alone; others between them are not counted. With 4
#             it is set aside
#
# Until another message is acknowledged, the next one is suspected at once. The SESSION record has the strikes, up to 3,
# before the next connection, and the journal a mark of what is set aside: a device that sleeps may have one connection
# in each of its lives. A network that breaks often may set aside a message that is innocent: that costs the message its
# place in the order.

_SURE = const(4)
# Reason codes of DISCONNECT that are about no message.
_OTHERS = b"\x89\x8b\x8d\x8e\x98\x9c\x9d\x9f\xa0"


def judge(session, error):
    """The connection ends with this error; rows are as it leaves them. Returns what connection_lost() does. Raises
    OSError if flash fails."""
    session.begin()
    journal = session.journal
    state = session.states[0]
    evident = state & STATE != SEND and state & STATE != REL and _is_about_messages(error)
    before = strikes = session.strikes
    anew = evident and state & TRIAL > 0 and journal.live > 1
    if anew:  # the next try, also after a restart, is for the one behind it
        session.again_mid = session.mids[0]
    most = 0xFFFF
    if evident and not state & TRIAL:
        if not strikes:
            strikes = int(session.suspected == session.mids[0])
        elif state & SUSPECT and strikes < _SURE:
            strikes += 1
        session.strikes = strikes
        session.suspected = session.mids[0]
        if before < _SURE:  # few connections find the message, whatever slow_down() says
            most = 1 if strikes else 3
    if state & TRIAL or (state & SUSPECT and evident and strikes == _SURE):
        from .pending import set_aside

        set_aside(session, 0, getattr(error, "code", 0))
        if evident and state & TRIAL:
            session.aside.failed(session.now)
        session.refill()
    elif state & SUSPECT:
        session.states[0] &= ~SUSPECT
    if strikes > before or anew:
        from .record import write as write_record

        try:
            write_record(session, session.recorded_most, anew)
        except OSError:  # no space for it
            if journal.failed:
                raise
    journal.commit()
    session.busy = False
    return most


def _is_about_messages(error):
    # True if a message may be the reason.
    return error and not (isinstance(error, MemoryError) or getattr(error, "code", 0) in _OTHERS)
