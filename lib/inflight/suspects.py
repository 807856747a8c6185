# Which message ends the connections? Loaded when one has ended before a message that was sent was acknowledged.
#
#   connections in a row that ended before the oldest message made progress
#   3         the next connection: when a PINGREQ was answered, so that neither the network nor a subscription is the
#             reason, the oldest message is sent alone. Each that is acknowledged is followed by the next one that had
#             left before; with the first one that had not, all go again
#   4         that message is set aside, if the broker ended the connection
#   6         also if a time-out did
#
# Until another message is acknowledged, the next one is suspected at once. A network that breaks often may set aside a
# message that is innocent: that costs the message its place in the order.

from errno import ETIMEDOUT

from .compat import const
from .marks import ANY, ASK, SUSPECT, TRIAL
from .outbound import REL, SEND, STATE

_ALONE = const(3)
_SURE = const(4)
_SURE_AFTER_TIME_OUTS = const(6)
# Reason codes of DISCONNECT that are about no message.
_OTHERS = b"\x89\x8b\x8d\x8e\x98\x9c\x9d\x9f\xa0"


def judge(session, now):
    """A connection begins; the rows are as the one before has left them."""
    window = session.outbound
    window.reach = ANY
    state = window.states[0] if window.rows else SEND
    unanswered = session.ended_by and state & STATE != SEND and state & STATE != REL
    sure = _limit(session.ended_by) if unanswered else 0
    if sure:
        oldest = window.mids[0] << 3 | state & STATE
        if 0 < window.strikes < _ALONE and window.stuck != oldest:
            window.strikes = 0
        window.stuck = oldest
        window.strikes += 1
    if state & TRIAL or (state & SUSPECT and sure and window.strikes >= sure):
        from .set_aside import set_aside

        set_aside(session, 0, getattr(session.ended_by, "code", 0))
        if sure:
            window.aside.failed(now)
        window.refill()
    elif state & SUSPECT:
        window.states[0] &= ~SUSPECT
    if window.aside:
        window.aside.begin(window)
    if window.strikes >= _ALONE and window.rows:
        from .set_aside import of

        of(window)
        window.reach = ASK


def _limit(error):
    # How many connections have to end so, until it is sure that a message is the reason; 0: it is not.
    if isinstance(error, MemoryError) or getattr(error, "code", 0) in _OTHERS:
        return 0
    return _SURE_AFTER_TIME_OUTS if getattr(error, "errno", 0) == ETIMEDOUT else _SURE
