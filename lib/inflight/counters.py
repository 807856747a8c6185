# Indices of Session.count: what has happened since the start.

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
