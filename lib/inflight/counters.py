# Indices of Session.count: what has happened since the start; and its names.

from .compat import const

ACCEPTED = const(0)
SENT = const(1)
RESENT = const(2)
COMPLETED = const(3)
DROPPED = const(4)
RECEIVED = const(5)
DUPLICATES = const(6)
REDELIVERED = const(7)
UNKNOWN_ACKS = const(8)
PINGS = const(9)
CONNECTS = const(10)
OUTAGES = const(11)
REFUSED = const(12)
PROTOCOL_ERRORS = const(13)
HANDLER_ERRORS = const(14)
TOO_LONG = const(15)
UNHANDLED = const(16)
DAMAGED = const(17)
SET_ASIDE = const(18)
ABANDONED = const(19)
# of level 5:
REJECTED = const(20)
UNHEARD = const(21)
LOWERED = const(22)
REPUBLISHED = const(23)
ORPHANED = const(24)
TAKEN_OVER = const(25)
HELD = const(26)
EXPIRED = const(27)
STALLS = const(28)


# In the order of their indices.
NAMES = (
    "accepted sent resent completed dropped received duplicates redelivered unknown_acks pings connects outages"
    " refused protocol_errors handler_errors too_long unhandled damaged set_aside abandoned"
    # of level 5:
    " rejected unheard lowered republished orphaned taken_over held expired stalls"
)


def by_name(count):
    """{name: value}"""
    return dict(zip(NAMES.split(), count))
