# What is seldom noted in the states of the in-flight window (see outbound), beside states, DUP and ALONE; and which of
# its rows may be sent.

from .compat import const

GIVEN_UP = const(32)  # only its PUBREL goes, and is not told as completed
SUSPECT = const(64)  # it was sent alone, to find out whether it ends the connection
TRIAL = const(128)  # it was set aside, and is tried again

ANY = const(0xFFFF)  # Outbound.reach: all rows
ASK = const(-1)  # none, before a PINGREQ is answered
