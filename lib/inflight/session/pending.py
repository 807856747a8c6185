# What the journal knows of the messages that the broker has not completed; and those that are set aside.

import inflight.counters as counters
import inflight.packet as packet

from ..compat import const, passed
from ..journal.records import ASIDE, DONE, OUT, RELEASED
from ..states import ANY, ASK, DUP, GIVEN_UP, INTERRUPTED, OUTSIDE, REL, RUNNING, SEND, STATE, SUSPECT, TOO_LONG, TRIAL
from .refused import MessageSetAside

_START = const(7)  # bytes of a record up to the length of the topic, at most


def message_at(session, address):
    """Returns (Message ID, sequence number, topic, size of the packet in bytes, QoS) of the record at `address`, which
    was just found. Raises OSError if it was damaged."""
    journal = session.journal
    journal.check(address)
    mid = journal.found_mid
    seq = journal.found_seq
    start = bytearray(_START)
    at = journal.read(address, 0, start)
    size = packet.length(start, at)
    qos = start[at] >> 1 & 3
    topic = at + 1
    while start[topic] & 0x80:
        topic += 1
    topic += 1
    name = bytearray(start[topic] << 8 | start[topic + 1])
    journal.read(address, topic + 2 - at, name)
    size = session.packet_size(address, size)
    return mid, seq, str(name, "utf-8"), size, qos


def messages(client):
    """See Base.pending_messages(). Each message is one operation: between them everything may change."""
    seq = 0
    while True:
        before = client._guard
        try:
            client._begin(RUNNING)
            found = next_message(client.session, seq)
        finally:
            client._guard = client._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)
        if not found:
            return
        yield found
        seq = found[1] + 1


def next_message(session, seq):
    """Returns the pending message of this sequence number, or the next one behind it; None: there is none."""
    journal = session.journal
    address = journal.find(OUT, seq) if journal else -1
    if address < 0:
        return None
    found = message_at(session, address)
    if session.row_at(address) >= 0:
        return found + ("in flight",)
    aside = found[1] < session.seq or journal.found_state & ASIDE
    return found + ("set aside" if aside else "waiting",)


def find_behind(session, mid):
    """True if a message with this Message ID is behind the window. See Window.is_pending()."""
    journal = session.journal
    if mid < 1 or not journal or journal.live <= session.rows:
        return False
    from .drop import find_mid

    at = find_mid(journal, mid)
    if at >= 0:
        session.asked = mid
        journal.watched = at
    return at >= 0


# --- messages that are set aside, so that one message blocks nothing ---
#   why                                                   who finds it
#   it is too long for this connection [MQTT5-3.2.2-15]   connection5, and oldest() below for those behind the window
#   it was too long: DISCONNECT with 0x95                 connection5
#   it ends each connection                               judge() of connect
#
# Such a message stays in the journal, keeps its Message ID, and loses its place in the order: it is a live record
# without a row, whose number is below that of the messages behind the window. The journal has a mark of that, so it is
# set aside after a restart, too. It is tried again when all other messages are completed:
#
#   it never left         as soon as a connection takes its size
#   it may have left      when a pause has passed, which doubles each time that it fails
#
# Then it has a row with the mark TRIAL, and if the connection ends before it is acknowledged, it is set aside again.

_PAUSE_MS = const(60_000)  # the first one, and the longest
_LONGEST_PAUSE_MS = const(86_400_000)
_ALONE_MS = const(20_000)  # a message that is sent alone, and not acknowledged, holds up the others for so long
_NOTICES = const(8)  # that the application has not been told yet, at most
_SENT = const(32)  # Message IDs, at most


class SetAside:
    """What a session knows of the messages that were set aside, beside their records."""

    def __init__(self):
        self.sent = []  # Message IDs of those that may have left in the session that the broker has
        self.all_sent = False  # there were more
        self.waits = []  # Message IDs of those that left in this life, in any session: they wait for the pause
        self.all_wait = False  # there were more
        self.left = 0  # so many are to be looked at
        self.again = False  # also those that may have left may be tried
        self._alone = 0  # messages that left on connections which ended too early: so many are sent alone
        self._seq = -1  # the next one to be looked at has this number, or a higher one; -1: nobody knows yet
        self.kept_below = 0  # a full journal drops none with lower numbers
        self.pause = 0  # ms from `since` on until all are looked at; 0: none has ended a connection
        self.since = 0

    def may_have_left(self, session, seq, mid):
        """True if the message that was set aside with this number and Message ID may have left."""
        return seq < session.sent_below or self.all_sent or mid in self.sent

    def forget(self, mid):
        """The message with this Message ID is not set aside any more."""
        for mids in (self.sent, self.waits):
            if mid in mids:
                mids.remove(mid)

    def session_lost(self):
        """The broker knows none of them."""
        self.sent = []
        self.all_sent = False

    def begin(self, session):
        """A connection begins: what was set aside may be tried on it, and a message that is suspected is sent alone."""
        self.left = session.journal.live
        self.again = not self.pause
        self._alone = 0
        session.reach = ANY
        if session.strikes and session.rows:
            for i in range(session.rows):
                if session.states[i] & (STATE | DUP) != SEND or session.mids[i] == session.suspected:
                    self._alone += 1
            if self._alone:
                session.reach = ASK
            else:
                self._end_suspicion(session)

    def retry(self, session):
        """They are tried again as soon as all else is completed."""
        self.left = session.journal.live
        self.again = True

    def failed(self, now):
        """A message ended the connection. Nothing that may have left is tried for a while."""
        self.pause = min(2 * self.pause, _LONGEST_PAUSE_MS) or _PAUSE_MS
        self.since = now

    def droppable(self, session, seq, told):
        """Returns the address of the first message of this number, or a higher one, that a full journal may drop, -1:
        there is none, or the application is to be told of others first, of which `told` are not noted yet."""
        journal = session.journal
        if len(session.notices) + told >= _NOTICES:
            return -1
        from .drop import may_be_received

        seq = first = max(seq, self.kept_below)
        while seq < session.seq:
            address = journal.find(OUT, seq)
            if address < 0 or journal.found_seq >= session.seq:
                break
            if session.row_at(address) < 0 and not (
                journal.found_state & RELEASED or may_be_received(session, address)
            ):
                return address
            seq = journal.found_seq + 1
            if first == self.kept_below:
                self.kept_below = first = seq
        return -1

    def drop(self, session, address):
        """The full journal drops this message, which was just found."""
        from .drop import give_up

        tell(session, address, 0, False)
        give_up(session, address)

    def discard(self, session):
        """A session ends: gives up those that may have left. Returns how many."""
        journal = session.journal
        n = 0
        at = journal.scan(OUT, -1)
        while at >= 0:
            seq = journal.found_seq
            if seq < session.seq and session.row_at(at) < 0:
                if journal.found_state & RELEASED or self.may_have_left(session, seq, journal.found_mid):
                    journal.mark(at, DONE)
                    n += 1
            at = journal.scan(OUT, at)
        self.session_lost()
        return n

    def remove(self, session, i):
        """Row i is over, and its message is set aside."""
        mid = session.mids[i]
        if session.states[i] & (STATE | DUP) != SEND:
            if mid not in self.sent:
                self.all_sent = not _add(self.sent, mid) or self.all_sent
            if mid not in self.waits:
                self.all_wait = not _add(self.waits, mid) or self.all_wait
        session.remove(i)
        self.kept_below = 0

    def oldest(self, session, oldest):
        """Session5.oldest(), while messages behind the window are too long for this connection: they are set aside.
        oldest: of Session."""
        while True:
            address = oldest()
            if address < 0 or not session.too_long or session.journal.found_state:
                return address  # past its PUBREC it is its PUBREL that goes
            if not is_too_long(session, address):
                return address
            if len(session.notices) >= _NOTICES:
                return -1  # until the application was told of these
            session.too_long -= 1
            session.queued -= 1
            session.seq = session.journal.found_seq + 1
            session.journal.mark(address, ASIDE)
            tell(session, address, TOO_LONG)

    def look(self, session):
        """Before messages are sent: which may go."""
        if session.reach != ANY:
            self._send_alone(session)
        if not session.rows:
            if session.queued:
                session.refill()  # the application has been told, see oldest()
            elif session.journal.live:
                self._try_next(session)

    def _send_alone(self, session):
        # Each message that left on connections which ended too early is sent alone, behind a PINGREQ that was answered.
        if session.reach == ASK:
            session.reach = 0
            session.ping_requested = True
            return
        sent = session.reach > 0
        if sent and session.rows and session.states[0] & SUSPECT:
            if not passed(session.now, session.progress_at, _ALONE_MS):
                return
            self._alone = 0
        elif sent:  # it was acknowledged
            self._alone -= 1
        elif session.pinging or session.request is not None:
            return
        session.waiting = True
        if self._alone > 0 and session.rows:
            if sent:
                session.strikes = 1
            session.suspected = session.mids[0]
            session.progress_at = session.now
            session.reach = 1
            session.states[0] |= SUSPECT
        else:
            self._end_suspicion(session)
            session.reach = ANY

    def _end_suspicion(self, session):
        session.strikes = session.suspected = 0
        session.record_stale = True

    def _recount(self, journal):
        # None is there, though some are counted. Where sectors that the mount has left out are not all of them, a power
        # cut had left a state half written, which read differently then: the mount that follows counts anew.
        self.left = 0
        count_rest(journal)
        if journal.live:
            journal._fail("a record of the journal is gone")

    def _try_next(self, session):
        # All else is completed: each live record is one that was set aside.
        journal = session.journal
        if not self.left and self.pause and passed(session.now, self.since, self.pause):
            self.since = session.now
            self.retry(session)
            if session.clock:
                session.clock.drop_expired(session)
        self.left = min(self.left, journal.live)
        if self._seq < 0:
            from .drop import find_mid

            self._seq = journal.found_seq + 1 if find_mid(journal, session.again_mid) >= 0 else 0
        while self.left:
            address = journal.find(OUT, self._seq)
            if address < 0:
                self._seq = 0
                address = journal.find(OUT, 0)
            if address < 0:
                self._recount(journal)
                return
            self.left -= 1
            self._seq = journal.found_seq + 1
            mid = journal.found_mid
            released = journal.found_state & RELEASED
            left = released or self.may_have_left(session, journal.found_seq, mid)
            waits = left or self.all_wait or mid in self.waits
            if waits and not self.again or not released and is_too_long(session, address):
                continue
            self.forget(mid)
            session.set_row(session.rows, mid, address, (REL if released else SEND) | TRIAL | (DUP if left else 0))
            session.rows += 1
            session.waiting = True
            return


def _add(mids, mid):
    # Returns False if there is no space for it.
    some = len(mids) < _SENT
    if some:
        mids.append(mid)
    return some


def set_aside_of(session):
    """Returns the SetAside of the session."""
    session.aside = session.aside or SetAside()
    return session.aside


def next_in_order(session, address):
    """The message behind the window that was just found at `address` was set aside in an earlier life, or -1: none was
    found. Returns the address of the next one that was not set aside, -1: there is none."""
    journal = session.journal
    while address >= 0 and journal.found_state & ASIDE:
        set_aside_of(session).left = journal.live
        session.queued -= 1
        session.seq = journal.found_seq + 1
        address = journal.find(OUT, session.seq)
    if address < 0 and session.queued:
        _none_waits(session)
    return address


def _none_waits(session):
    # Messages were counted behind the window, and none is there: sectors that the mount has left out are counted now.
    # All records without a row are copies of messages that had their turn, on a flash that somebody restored in part;
    # where some were set aside nobody can tell those from copies.
    journal = session.journal
    count_rest(journal)
    session.queued = 0
    if session.aside:
        return
    at = journal.scan(OUT, -1)
    while at >= 0:
        if session.row_at(at) < 0:
            journal.mark(at, DONE)
        at = journal.scan(OUT, at)
    if journal.live > session.rows:
        set_aside_of(session).left = 1  # looks for it when all else is completed


def count_rest(journal):
    """Counts what a mount has left out: until then too many messages may count as live."""
    if hasattr(journal, "checkpoints"):
        journal.checkpoints.count_rest()


def is_too_long(session, address):
    """True if this connection does not take the message of the record at `address`, which was just found."""
    most = session.maximum_out
    if most >= session.journal.largest + 2:
        return False
    return session.packet_size(address, 0) > most


def set_aside(session, i, code):
    """The message of row i is set aside, for a reason with this code of MQTT 5; 0: the connection ended."""
    address = session.addresses[i]
    state = session.states[i]
    set_aside_of(session).remove(session, i)
    if not state & TRIAL:  # else the journal has it
        released = state & STATE >= REL or state & GIVEN_UP
        session.journal.mark(address, ASIDE | RELEASED if released else ASIDE)
    if not state & (TRIAL | GIVEN_UP):  # else it was told
        tell(session, address, code)


def tell(session, address, code, kept=True):
    """The application is told of the message of the record at `address`, which was just found."""
    if kept:
        session.count[counters.SET_ASIDE] += 1
    session.notices += (MessageSetAside(code, kept, *message_at(session, address)),)
