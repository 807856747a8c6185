# CONNACK, and what follows from it at each level. Loaded for each.

import inflight.counters as counters

from .packet import ProtocolError
from .session_record import CLEAN, ENDING, PERSISTENT


def connack(session):
    """CONNACK arrived. Raises ProtocolError, OSError if flash fails."""
    d = session.decoder
    # At level 3 byte 1 is reserved: the client goes on as if the broker knew the session.
    present = d.buf[d.at] if d.protocol_level > 3 else 0
    session.code = d.buf[d.at + 1]
    if session.code:  # a refusal, whatever else the packet says: a broker of level 5 alone has another one
        session.present = False
        session.count[counters.REFUSED] += 1
        return
    if present > 1 or d.n > 2 or (present and session.clean):
        raise ProtocolError("CONNACK %d %d of length %d" % (present, session.code, d.n))
    session.present = present == 1
    accepted(session, not present and d.protocol_level > 3, _lose)


def _lose(session):
    """The broker has lost the session."""
    from .discarding import session_lost

    return session_lost(session.outbound)


def accepted(session, none, lose):
    """CONNACK says that the connection stands. none: the broker says that it has no session of ours; lose(session) is
    called if we have one, and returns the Message IDs of the messages that are completed by that."""
    session.connected = True
    session.count[counters.CONNECTS] += 1
    record = session.record
    mode = record.mode
    new = session.clean or none or mode == CLEAN
    if new and session.inbound:
        session.inbound.session_lost()
    if mode == CLEAN or (mode == ENDING and new):
        from .discarding import discard

        session.count[counters.DROPPED] += discard(session.outbound)
    elif none and not session.clean:
        session.ended = lose(session)
        session.count[counters.COMPLETED] += len(session.ended)
    if new:
        session.foreign = None
        record.stale = record.stale or record.unproven > 0
        record.unproven = 0
    elif session.journal and not record.has_session:
        from .foreign import oldest_mid, suspect

        suspect(session, oldest_mid(session.outbound))
    record.mode = PERSISTENT
    if session.clean:
        record.mode = CLEAN
        # What left earlier belongs to sessions that have ended: from now on no more than the window can leave.
        session._most = session._max_inflight
    if record.mode != mode or not record.has_session:
        record.stale = True
