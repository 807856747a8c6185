# Which message ends the connections? Loaded when one has ended before a message that was sent was acknowledged.
#
#   connections in a row that ended before the oldest message made progress
#   3         the next connections: when a PINGREQ was answered, so that neither the network nor a subscription is the
#             reason, the oldest message is sent alone. Each that is acknowledged is followed by the next one that had
#             left before; with the first one that had not, all go again
#   8         the last five with that message alone; others between them are not counted: it is set aside
#
# Until another message is acknowledged, the next one is suspected at once. A network that breaks often may set aside a
# message that is innocent: that costs the message its place in the order.

from ..compat import const
from ..states import ANY, ASK, REL, SEND, STATE, SUSPECT, TRIAL

_ALONE = const(3)
_SURE = const(8)
# Reason codes of DISCONNECT that are about no message.
_OTHERS = b"\x89\x8b\x8d\x8e\x98\x9c\x9d\x9f\xa0"


def judge(session, now):
    """A connection begins; the rows are as the one before has left them."""
    session.reach = ANY
    state = session.states[0] if session.rows else SEND
    unanswered = state & STATE != SEND and state & STATE != REL
    suspicious = unanswered and _is_about_messages(session.ended_by)
    if suspicious:
        oldest = session.mids[0] << 3 | state & STATE
        if 0 < session.strikes < _ALONE and session.suspected != oldest:
            session.strikes = 0
        session.suspected = oldest
        if session.strikes < _ALONE or state & SUSPECT:
            session.strikes += 1
    if state & TRIAL or (state & SUSPECT and suspicious and session.strikes >= _SURE):
        from .set_aside import set_aside

        set_aside(session, 0, getattr(session.ended_by, "code", 0))
        if suspicious and state & TRIAL:
            session.aside.failed(now)
        session.refill()
    elif state & SUSPECT:
        session.states[0] &= ~SUSPECT
    if session.aside:
        session.aside.begin(session)
    if session.strikes >= _ALONE and session.rows:
        from .set_aside import of

        of(session)
        session.reach = ASK


def _is_about_messages(error):
    # True if a message may be the reason.
    return error and not (isinstance(error, MemoryError) or getattr(error, "code", 0) in _OTHERS)
