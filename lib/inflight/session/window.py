# The in-flight window: rows of (Message ID, address in the journal, state), those of messages to the broker and, behind
# them, those of messages of QoS 2 from it. What the rows mean, and every transition of them, stands here.
#
# Messages to the broker
# ----------------------
# A message of QoS 1 or 2 is a record of the journal from publish() on. The oldest ones stand in the in-flight window,
# rows of (Message ID, address in the journal, state); the others wait in the journal alone, so a backlog costs no RAM.
# They enter the window, and are sent, in the order of their sequence numbers [MQTT-4.6.0-1].
#
#   row      PUBACK     PUBREC             PUBCOMP    clause
#   SEND     ignored    ignored            ignored    about to be sent (again)
#   ACK      done       error              error      MQTT-4.3.2-1
#   REC      error      released, PUBREL   error      MQTT-4.3.3-1
#   OWED     error      ignored            error      its first PUBREL is about to be sent
#   REL      ignored    ignored            ignored    about to be sent again
#   COMP     error      PUBREL             done       MQTT-4.3.3-1
#   none     ignored    PUBREL             ignored    answers to an earlier life
#
#   sending           SEND -> ACK at QoS 1, REC at QoS 2; OWED, REL -> COMP
#   a new connection  ACK, REC -> SEND with DUP; OWED, COMP -> REL  MQTT-4.4.0-1, 3.3.1-1
#
# "done" and "released" are marks in the journal; session tells when they are durable. After
# a power cut a live record is SEND, a released one REL, and a PUBLISH never follows its PUBREL.
#
# Messages of QoS 2 from the broker
# ---------------------------------
# Each Message ID is a record of the journal (or of RAM alone), so that a message is delivered once across power cuts.
# Its row stands behind those to the broker, in the same columns; receive tells what is done with them.
#
#   row        PUBLISH                              PUBREL             clause
#   none       row, deliver, DELIVERED, PUBREC      PUBCOMP            MQTT-4.3.3-2
#   RECEIVED   deliver again, DELIVERED, PUBREC     error              power was cut in the handler
#   DELIVERED  PUBREC                               no row, PUBCOMP    MQTT-4.3.3-2
#
# This is the standard's method B (figure 4.3): only the id is kept. It takes 15 bytes of flash
# instead of a copy of the message, which the broker holds until our PUBREC anyway. MQTT 3.1 says
# that a message becomes available at PUBREL; no peer can tell the difference.

import inflight.packet as packet

from ..compat import const
from ..journal.records import ASIDE, DONE, OUT, RELEASED
from ..states import ANY, DUP, ERROR, FINISH, GIVEN_UP, IGNORED, OWED, REC, REL, RELEASE, REPEAT, SEND, STATE, UNKNOWN
from .packet_buffer import PacketBuffer

_MARKS = const(0xF0)  # all bits of a state but SEND to COMP
_GONE = const(6)  # acknowledged() returns it, too
# fmt: off
_TABLE = bytes((
    # SEND   ACK      REC      REL      COMP     OWED
    IGNORED, FINISH,  ERROR,   IGNORED, ERROR,   ERROR,    # PUBACK
    IGNORED, ERROR,   RELEASE, IGNORED, REPEAT,  IGNORED,  # PUBREC
    ERROR,   ERROR,   ERROR,   ERROR,   ERROR,   ERROR,    # PUBREL is never looked up
    IGNORED, ERROR,   ERROR,   IGNORED, FINISH,  ERROR,    # PUBCOMP
))
# fmt: on


class Window(PacketBuffer):
    """The rows of a session."""

    rows = rows_in = 0  # of messages to the broker, and from `limit` on of those from it
    old_received = 0  # those of earlier connections: the first rows of messages from the broker
    reach = ANY  # so many rows, from the oldest on, may be sent
    aside: "Any" = None  # type: ignore[name-defined] # noqa: F821  SetAside, once something was
    # Of what a start sets.
    limit: int
    mids: "Any" = None  # type: ignore[name-defined] # noqa: F821
    addresses: "Any"  # type: ignore[name-defined] # noqa: F821
    states: bytearray
    waiting: bool
    queued: int
    seq: int
    sent_below: int
    last_mid: int
    used_mid: int
    asked: "int | None"  # Message ID of the message that the journal watches
    # Of Session.
    _next_in_order: "Any"  # type: ignore[name-defined] # noqa: F821
    _find_behind: "Any"  # type: ignore[name-defined] # noqa: F821

    def packet_size(self, address, n):
        """Returns the size of the packet that the record at `address` becomes, which was just found and has a PUBLISH
        of n bytes."""
        return n

    def set_row(self, i, mid, address, state):
        """Row i is this message from now on."""
        self.mids[i] = mid
        self.addresses[i] = address
        self.states[i] = state

    def remove(self, i):
        """Row i is over; those behind it, of the same direction, move up."""
        if i < self.limit:
            end = self.rows = self.rows - 1
        else:
            if i < self.limit + self.old_received:
                self.old_received -= 1
            self.rows_in -= 1
            end = self.limit + self.rows_in
        while i < end:
            self.set_row(i, self.mids[i + 1], self.addresses[i + 1], self.states[i + 1])
            i += 1

    def row(self, mid, i=0):
        """Returns the row of this Message ID, -1 if there is none. i: the first one that is looked at, `limit` for
        those of messages from the broker."""
        end = i + self.rows_in if i else self.rows
        while i < end:
            if self.mids[i] == mid:
                return i
            i += 1
        return -1

    def row_at(self, address):
        """Returns the row of the message to the broker whose record is at `address`, -1 if there is none."""
        for i in range(self.rows):
            if self.addresses[i] == address:
                return i
        return -1

    def refill(self):
        """The oldest messages behind the window enter it as far as it has space."""
        journal = self.journal
        while self.queued and self.rows < self.limit:
            address = self.oldest()
            if address < 0:
                return
            seq = journal.found_seq
            state = REL if journal.found_state else SEND
            self.set_row(self.rows, journal.found_mid, address, state | DUP if seq < self.sent_below else state)
            self.rows += 1
            self.waiting = True
            self.seq = seq + 1
            self.queued -= 1

    def oldest(self):
        """Returns the address of the oldest message behind the window, -1: there is none."""
        address = self.journal.find(OUT, self.seq)
        if address < 0 or self.journal.found_state & ASIDE:
            return self._next_in_order(address)
        return address

    def is_pending(self, mid):
        """True if the message with this Message ID is in the window or behind it. One that is behind it is looked for
        once: the journal tells when it is done."""
        if self.row(mid) >= 0 or (mid == self.asked and self.journal.watched >= 0):
            return True
        return self._find_behind(mid)

    def free_mid(self, other):
        """Returns the next Message ID that is neither in use nor `other`. [MQTT-2.3.1-2]
        The journal is asked for ids in use only where one was, and once on the way around."""
        journal = self.journal
        mid = self.last_mid
        if self.used_mid < 0:
            self.used_mid = journal.next_used(mid % 65535 + 1)
        used = self.used_mid
        while True:
            mid = mid % 65535 + 1
            if mid == used or (mid == 1 and journal):
                self.used_mid = -1  # once last_mid is here
                used = journal.next_used(mid)
                if mid == used:
                    used = journal.next_used(mid % 65535 + 1)
                    continue
            if mid != other:
                return mid

    def retransmit(self):
        """Everything unacknowledged goes out once more, in order [MQTT-4.4.0-1]. Returns True if there is such."""
        some = False
        for i in range(self.rows):
            state = self.states[i] & STATE
            if state != SEND and state != REL:
                some = True
                marks = self.states[i] & _MARKS
                self.states[i] = marks | DUP | (REL if state > REL or marks & GIVEN_UP else SEND)
        self.waiting = True
        return some

    def next_row(self):
        """Returns the first row that has something to send, -1 if none has."""
        states = self.states
        for i in range(min(self.rows, self.reach)):
            state = states[i] & STATE
            if state == SEND or state == REL or state == OWED:
                return i
        self.waiting = False
        return -1

    def finish(self, i):
        """The broker has the message of row i."""
        self.journal.mark(self.addresses[i], DONE)
        self.remove(i)
        if self.queued:
            self.refill()

    def acknowledged(self, kind, mid):
        """PUBACK, PUBREC or PUBCOMP arrived. Returns what the table says, already noted in the journal."""
        i = self.row(mid)
        if i < 0:
            return UNKNOWN
        act = _TABLE[(kind - packet.PUBACK) * 6 + (self.states[i] & STATE)]
        if act == FINISH:
            if self.states[i] & GIVEN_UP:
                act = _GONE
            self.finish(i)
        elif act == RELEASE:
            address = self.addresses[i]
            self.journal.mark(address, RELEASED)
            self.states[i] += OWED - REC
            self.waiting = True
            for k in range(i + 1, self.rows):
                if self.states[k] & STATE == OWED:  # PUBRELs leave in the order of the PUBRECs [MQTT-4.6.0-4]
                    state = self.states[i]
                    self.remove(i)
                    self.set_row(self.rows, mid, address, state)
                    self.rows += 1
                    break
        return act
