# Numbers that several parts of the session and the clients know each other's states by. They cost no RAM on a board.

from .compat import const

# A row of a message to the broker: see session. `states` has one of these,
SEND = const(0)
ACK = const(1)
REC = const(2)
REL = const(3)
COMP = const(4)
OWED = const(5)
STATE = const(7)  # in these bits,
DUP = const(8)  # and more: it was sent before
ALONE = const(16)  # its PUBREL was, to a broker that had forgotten it
GIVEN_UP = const(32)  # only its PUBREL goes, and is not told as completed
SUSPECT = const(64)  # it was sent alone, to find out whether it ends the connection
TRIAL = const(128)  # it was set aside, and is tried again

ANY = const(0xFFFF)  # Session.reach, which of the rows may be sent: all
ASK = const(-1)  # none, before a PINGREQ is answered

ERROR = const(0)  # what Session.acknowledged() returns
IGNORED = const(1)
RELEASE = const(2)
REPEAT = const(3)
FINISH = const(4)
UNKNOWN = const(5)

RECEIVED = const(0)  # a row of a message of QoS 2 from the broker
DELIVERED = const(1)

NEW = const(0)  # what receive.received() returns
REDELIVERED = const(1)
DUPLICATE = const(2)

PERSISTENT = const(0)  # Session.mode
ENDING = const(1)
CLEAN = const(2)
UNSURE = const(3)

BY_DISCONNECT = const(1)  # Session5.ending
BY_CONNECT = const(2)
OTHER_SESSION = const(-1)  # Session5.code: the broker's session is one that the client does not know
MOST_INFLIGHT = const(64)  # messages to a broker of level 5

OPEN = const(0)  # steps of connecting: open a connection,
POLL = const(1)  # write and read once,
REQUEST = const(2)  # something was asked

PATTERN = const(0)  # a row of a handler: its filter, bytes,
QOS = const(1)
HANDLER = const(2)  # the function, None,
STREAM = const(3)  # which gets long payloads in pieces
GRANTED = const(4)  # the broker has the filter
ONLY = const(5)  # the only topic that matches, a str, or None
MATCH = const(6)  # what names match: of a shared subscription the end of its filter
NUMBER = const(7)  # the Subscription Identifier
MARK = const(8)  # the message that was received matches: 1, and is for this handler: 2

IDLE = const(0)  # `_state` of a client: see base
OPENING = const(1)
CONNECTING = const(2)
UP = const(3)
CLOSING = const(4)

READ = const(1)  # what a client waits for between two steps: bytes from the broker,
WRITE = const(2)  # that the socket takes more,
CONSUMER = const(3)  # that a consumer takes a message, or asks for the next one
SOME = const(1)  # packets that were read, of any type: see Base._held

# One thread of control: the bits of a client's `_guard`. RUNNING is off again however an operation ends; READING and
# WRITING stand if it was interrupted (Ctrl-C, no memory). So one that begins finds RUNNING: another one is under way,
# which has called it (a scheduled function, a handler of signals), and it is refused; else READING or WRITING, or
# Session.busy: what was interrupted is recovered first.
READING = const(1)  # bytes from the connection, until the session has handled them
WRITING = const(2)  # a packet to the connection
RUNNING = const(4)  # an operation that the application called
INTERRUPTED = const(3)  # READING and WRITING
OUTSIDE = const(8)  # that calls a handler or callback, or waits: publish() is accepted, no other operation

TOO_LONG = const(0x95)  # the reason code of messages that are set aside since they are longer than a broker takes
