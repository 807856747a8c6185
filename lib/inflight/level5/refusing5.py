# What a session of level 5 does when the broker refuses a message, or takes less than it asks for. Loaded then.

from errno import EOPNOTSUPP

import inflight.counters as counters

from ..packet import PUBACK
from ..session.given_up import give_up
from ..session.refused import PublishRefused
from ..states import BY_CONNECT, GIVEN_UP, REL, SEND, STATE
from .errors5 import ERROR, ProtocolError5

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
        raise ProtocolError5("the broker has another message of Message ID %d" % mid, ERROR)
    if state == SEND or state == REL:
        session.count[counters.UNKNOWN_ACKS] += 1
    elif state != kind - PUBACK + 1:  # ACK for PUBACK, REC for PUBREC
        raise ProtocolError5("type %d for Message ID %d" % (kind, mid), ERROR)
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
        session.notices += (OSError(EOPNOTSUPP, "the broker takes no QoS 2, or nothing retained"),)
