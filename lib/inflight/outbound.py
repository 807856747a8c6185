# The sender of QoS 1 and 2. A message is a record of the journal from publish() on. The oldest
# ones stand in the in-flight window, a table of (Message ID, address in the journal, state); the
# others wait in the journal alone, so a backlog costs no RAM. They enter the window, and are
# sent, in the order of their sequence numbers [MQTT-4.6.0-1].
#
#   row      PUBACK     PUBREC             PUBCOMP    clause
#   SEND     ignored    ignored            ignored    about to be sent (again)
#   ACK      done       error              error      MQTT-4.3.2-1
#   REC      error      released, PUBREL   error      MQTT-4.3.3-1
#   REL      ignored    ignored            ignored    about to be sent (again)
#   COMP     error      PUBREL             done       MQTT-4.3.3-1
#   none     ignored    PUBREL             ignored    answers to an earlier life
#
#   sending           SEND -> ACK at QoS 1, REC at QoS 2; REL -> COMP
#   a new connection  ACK, REC -> SEND with DUP; COMP -> REL       MQTT-4.4.0-1, 3.3.1-1
#
# "done" and "released" are marks in the journal, made before anything leaves in answer: after
# a power cut a live record is SEND, a released one REL, and a PUBLISH never follows its PUBREL.
#
# Which messages can have left before a power cut? Only those of the window, so of the live ones
# the first `most` at most, the largest window since the last clean session began. Of these, a
# message can have left
# - if it was accepted with a connection: its record has DUP then;
# - or if its number is below `below`: so many had been accepted without one when a connection began
#   to send them.
# The session keeps `most` and `below`. All other messages are known never to have left: they go out
# without DUP [MQTT-3.3.1-1], survive the end of a session, and may be dropped.
#
# A message that is set aside (see set_aside) has no row, and a number below `seq`.

from .compat import const
from .in_flight import InFlight
from .packet import PUBACK
from .records import DONE, OUT, RELEASED
from .states import (
    ANY,
    COMP,
    DUP,
    ERROR,
    FINISH,
    GIVEN_UP,
    IGNORED,
    REC,
    REL,
    RELEASE,
    REPEAT,
    SEND,
    STATE,
    UNKNOWN,
)

_MARKS = const(0xF0)  # all bits of a state but SEND to COMP
_GONE = const(6)  # acknowledged() returns it, too
# fmt: off
_TABLE = bytes((
    # SEND   ACK      REC      REL      COMP
    IGNORED, FINISH,  ERROR,   IGNORED, ERROR,   # PUBACK
    IGNORED, ERROR,   RELEASE, IGNORED, REPEAT,  # PUBREC
    ERROR,   ERROR,   ERROR,   ERROR,   ERROR,   # PUBREL is never looked up
    IGNORED, ERROR,   ERROR,   IGNORED, FINISH,  # PUBCOMP
))
# fmt: on


class Outbound(InFlight):
    """The in-flight window of `limit` messages over journal, where `most` messages of a number below
    `below`, or with DUP, can have left in an earlier life."""

    sent_below: int  # see session_load
    aside = None  # SetAside, once something was
    reach = ANY  # so many rows, from the oldest on, may be sent
    strikes = 0  # see suspects
    stuck: int

    def __init__(self, journal, *args):
        self.journal = journal
        from .session_store import start_outbound

        start_outbound(self, journal, *args)

    def refill(self):
        """The oldest messages behind the window enter it as far as it has space."""
        journal = self.journal
        while self.queued and self.rows < len(self.mids):
            address = self.oldest()
            if address < 0:
                return
            seq = journal.found_seq
            state = REL if journal.found_state else SEND
            self._add(journal.found_mid, address, state | DUP if seq < self.sent_below else state)
            self.waiting = True
            self.seq = seq + 1
            self.queued -= 1

    def oldest(self):
        """Returns the address of the oldest message behind the window. -1: what was counted there are copies of
        messages that had their turn, on a flash that somebody restored in part; they are done."""
        address = self.journal.find(OUT, self.seq)
        if address < 0:
            self.queued = 0
            if not self.aside:  # else nobody can tell them from what was set aside
                from .given_up import drop_copies

                drop_copies(self)
        return address

    def is_pending(self, mid):
        """True if the message with this Message ID is in the window or behind it."""
        journal = self.journal
        return self.row(mid) >= 0 or (mid > 0 and journal and journal.live > self.rows and self._next_used(mid) == mid)

    def free_mid(self, other):
        """Returns the next Message ID that is neither in use nor `other`. [MQTT-2.3.1-2]
        The journal is asked for ids in use only where one was, and once on the way around."""
        mid = self.last_mid
        if self._used < 0:
            self._used = self._next_used(mid % 65535 + 1)
        used = self._used
        while True:
            mid = mid % 65535 + 1
            if mid == used or mid == 1:
                self._used = -1  # once last_mid is here
                used = self._next_used(mid)
                if mid == used:
                    used = self._next_used(mid % 65535 + 1)
                    continue
            if mid != other and self.row(mid) < 0:
                return mid

    def _next_used(self, mid):
        # The first id from `mid` on that a live message has, 0 if there is none.
        journal = self.journal
        used = 0
        distance = 65535
        at = journal.scan(OUT, -1) if journal else -1
        while at >= 0:
            if (journal.found_mid - mid) % 65535 < distance:
                used = journal.found_mid
                distance = (used - mid) % 65535
            at = journal.scan(OUT, at)
        return used

    def accepted(self, mid, address, dup):
        """The newest message stands in the journal at `address`, with DUP if it may leave at once. Returns the address
        if it went straight into the window, -1 if it waits behind."""
        self.last_mid = mid
        if not dup:
            self.below_stale = True
        if self.queued or self.rows == len(self.mids):
            self.queued += 1
            return -1
        self._add(mid, address, SEND)
        self.waiting = True
        self.seq = self.journal.next_seq
        return address

    def retransmit(self):
        """Everything unacknowledged goes out once more, in order [MQTT-4.4.0-1]. Returns True if
        there is such."""
        some = False
        for i in range(self.rows):
            state = self.states[i] & STATE
            if state != SEND and state != REL:
                some = True
                marks = self.states[i] & _MARKS
                self.states[i] = marks | DUP | (REL if state == COMP or marks & GIVEN_UP else SEND)
        self.waiting = True
        return some

    def next(self):
        """Returns the first row that has something to send, -1 if none has."""
        states = self.states
        for i in range(min(self.rows, self.reach)):
            state = states[i] & STATE
            if state == SEND or state == REL:
                return i
        self.waiting = False
        return -1

    def sent(self, i, qos):
        """Row i has been sent: a PUBLISH of this QoS, or a PUBREL."""
        self.states[i] += 1 if self.states[i] & STATE == REL else qos  # to COMP, ACK or REC
        if i + 1 == self.rows:  # next() finds the first: none waits before it, none stands behind
            self.waiting = False

    def finish(self, i):
        """The broker has the message of row i."""
        self.journal.mark(self.addresses[i], DONE)
        self.remove(i)
        if self.queued:
            self.refill()

    def acknowledged(self, kind, mid):
        """PUBACK, PUBREC or PUBCOMP arrived. Returns what the table says, already noted in the
        journal."""
        i = self.row(mid)
        if i < 0:
            return UNKNOWN
        act = _TABLE[(kind - PUBACK) * 5 + (self.states[i] & STATE)]
        if act == FINISH:
            if self.states[i] & GIVEN_UP:
                act = _GONE
            self.finish(i)
        elif act == RELEASE:
            self.journal.mark(self.addresses[i], RELEASED)
            self.states[i] += COMP - REC
        return act
