# What a session of level 5 does when the broker refuses a message, or takes less than it asks for. Loaded then.

from errno import EOPNOTSUPP

import inflight.counters as counters

from .cursor import ERROR, ProtocolError5
from .mqtt5 import HELD, LOWERED, MOST_INFLIGHT, REJECTED, UNDELIVERABLE
from .outbound import ERROR as MISPLACED
from .outbound import UNKNOWN
from .refused import PublishRefused

_MID_IN_USE = 0x91
_TOO_LONG = 0x95
_QUOTAS = b"\x93\x97"
_PAUSE_MS = 1000  # the first one, and the longest
_LONGEST_PAUSE_MS = 60_000


def rejected(session, kind, code):
    """PUBACK or PUBREC arrived with this code, a failure."""
    mid = session.decoder.mid
    if code == _MID_IN_USE:
        session.begin_anew = True  # the two sessions disagree
        raise ProtocolError5("the broker has another message of Message ID %d" % mid, ERROR)
    if session.aliases:
        session.aliases.refused(mid)
    again = code in _QUOTAS
    act = session.outbound.rejected(kind, mid, again)
    if act == MISPLACED:
        raise ProtocolError5("type %d for Message ID %d" % (kind, mid), ERROR)
    if act == UNKNOWN:
        session.count[counters.UNKNOWN_ACKS] += 1
    elif again:
        _hold(session)
    else:
        tell(session, REJECTED, code, mid)


def undeliverable(session, address, mid):
    """The message of the record at `address`, which was just found, is too long for this broker. [MQTT5-3.2.2-15]"""
    from .stored5 import may_be_received

    window = session.outbound
    if may_be_received(window, address):
        window.release(address)
    else:
        window.give_up(address)
    tell(session, UNDELIVERABLE, _TOO_LONG, mid)


def tell(session, counter, code, mid):
    """The message that Outbound5.give_up() gave up is dropped: counts that, and tells the application, of as many as
    can be in flight at once: nobody knows how many the journal has that are too long."""
    session.count[counters.DROPPED] += 1
    session.count[counter] += 1
    if len(session.notices) < MOST_INFLIGHT:
        session.notices.append(PublishRefused(code, mid, session.outbound.rejected_seq))


def _hold(session):
    # All messages of QoS 1 and 2 wait, so that their order is kept; ever longer.
    session.count[HELD] += 1
    if not session.pause:
        session.last_pause = min(2 * session.last_pause, _LONGEST_PAUSE_MS) or _PAUSE_MS
    session.pause = session.last_pause
    session.paused_at = session.now
    session.outbound.quota = 0


def lowered(session):
    """A message is sent at a lower QoS, or not retained: perhaps twice is better than never. Told once for a
    connection."""
    session.count[LOWERED] += 1
    if not session.told_lowered:
        session.told_lowered = True
        session.notices.append(OSError(EOPNOTSUPP, "the broker takes no QoS 2, or nothing retained"))
