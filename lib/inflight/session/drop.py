# Messages that are discarded: the journal is full, or their session has ended; that are given up; and that the journal
# has lost.

import inflight.counters as counters

from ..compat import const
from ..counters import DAMAGED, DROPPED
from ..errors import OutboxFull
from ..journal.records import DONE, NOTES, OUT, RELEASED
from ..packet import PUBLISH, length
from ..states import ALONE, DUP, GIVEN_UP, REL, SEND, STATE
from .refused import MessageDamaged

_GIVEN_UP = const(32)  # see marks


def make_space(session, size):
    """Drops messages when the journal is full: the oldest waiting ones, if that frees enough, else the new one. Returns
    True if the new one fits."""
    journal = session.journal
    excess = journal.excess(size)
    helps = session.when_full == "oldest" and can_drop(session, excess)
    while not journal.fits(OUT, size):
        if not session.count[counters.DROPPED]:
            session.notices += (OutboxFull("the journal is full: messages are dropped from now on, and counted"),)
        session.count[counters.DROPPED] += 1
        if not (helps and drop_oldest(session)):
            return False
    return True


def can_drop(session, excess):
    """True if the messages that drop_oldest() would give up make `excess` bytes free."""
    journal = session.journal
    told = 0
    address = _droppable(session) if excess > 0 else -1
    while address >= 0 and excess > 0:
        excess -= journal.cost(journal.found_len)
        behind = journal.found_seq + 1
        if behind <= session.seq:
            told += 1
        address = _droppable(session, behind, told)
    return excess <= 0


def drop_oldest(session):
    """Gives up the oldest message that was set aside, or is behind the window. Returns False if there is none that the
    broker has certainly never seen, or can have twice: half a handshake cannot be taken back."""
    address = _droppable(session)
    if address < 0:
        return False
    behind = session.journal.found_seq + 1
    if behind <= session.seq:
        session.aside.drop(session, address)
        return True
    _drop(session, address)
    # Nothing is left in front of the next one, so nobody need look there again.
    if session.seq >= session.sent_below:
        session.seq = behind
    else:
        session.sent_below = behind
    return True


def _droppable(session, seq=0, told=0):
    # Returns the address of the first one from this number on. With rising numbers only: a journal is asked for lower
    # ones at the price of reading it from its beginning.
    journal = session.journal
    if session.aside:
        address = session.aside.droppable(session, seq, told)
        if address >= 0:
            return address
    address = journal.find(OUT, max(seq, session.seq, session.sent_below)) if session.queued else -1
    if address < 0 and session.queued:
        session.oldest()
    return address


def _drop(session, address):
    session.journal.mark(address, DONE)
    session.queued -= 1


def discard(session):
    """Gives up the messages that were sent, or may have been: they belong to a session that
    ends [MQTT-3.1.2-6]. Those that never left stay. Returns how many went."""
    n = 0
    left = session.most + session.queued - session.journal.live  # behind the window
    for i in range(min(session.rows, session.most) - 1, -1, -1):
        if session.states[i] & (STATE | DUP) != SEND:
            session.journal.mark(session.addresses[i], DONE)
            session.remove(i)
            n += 1
    while session.queued and left > 0:
        left -= 1
        address = session.oldest()
        if address < 0 or session.journal.found_seq >= session.sent_below:
            break
        _drop(session, address)
        n += 1
    if session.aside:
        n += session.aside.discard(session)
    session.refill()
    return n


def session_lost(session):
    """The broker has lost the session. A PUBREL goes out once more; one that was already sent
    to a broker without the session, and not answered, has nobody left to answer it. Returns the Message IDs
    that end so: the broker has these messages since its PUBREC."""
    ended = []
    for i in range(session.rows - 1, -1, -1):
        if session.states[i] & _GIVEN_UP:
            session.finish(i)
        elif session.states[i] & STATE >= REL:
            if session.states[i] & ALONE:
                ended.append(session.mids[i])
                session.finish(i)
            else:
                session.states[i] |= ALONE
    return ended


# --- a message that is given up, by the application or for another reason ---

_ACK = const(1)


def give_up(session, address):
    """The message of the record at `address` is done, and the broker does not have it. Returns its sequence number."""
    journal = session.journal
    journal.mark(address, DONE)
    seq = journal.found_seq
    i = session.row_at(address)
    if i >= 0:
        session.remove(i)
        session.refill()
    elif seq >= session.seq:
        session.queued -= 1
    else:
        session.aside.forget(journal.found_mid)
    return seq


def is_unsent(session, address):
    """True if the message of the record at `address`, which was just found, can not have been sent."""
    i = session.row_at(address)
    if i >= 0:
        return session.states[i] & (STATE | DUP) == SEND
    journal = session.journal
    if session.aside and journal.found_seq < session.seq:
        return not session.aside.may_have_left(session, journal.found_seq, journal.found_mid)
    return journal.found_seq >= session.sent_below


def may_be_received(session, address):
    """True if the broker may hold the Message ID of this message of QoS 2: another message under it would count as the
    same one."""
    first = bytearray(1)
    session.journal.read(address, 0, first)
    return first[0] & 4 > 0 and not is_unsent(session, address)


def find_mid(journal, mid):
    """Returns the address of the pending message with this Message ID, -1 if there is none."""
    at = journal.checkpoints.find_mid(mid) if hasattr(journal, "checkpoints") else -2
    if at == -2:
        at = journal.scan(OUT, -1)
        while at >= 0 and journal.found_mid != mid:
            at = journal.scan(OUT, at)
    return at


def discard_message(session, mid, seq=-1):
    """The application gives up message `mid`, of sequence number `seq` if that is known, else -1. Returns True if it
    was pending; None: it is being written in pieces. A PUBREL ends what the broker may know of its Message ID; that it
    was given up is not known after a restart, nor of a message that waits: then the end of the handshake counts as
    completed, too. Raises OSError if flash fails."""
    journal = session.journal
    at = -1
    if journal:
        at = find_mid(journal, mid) if seq < 0 else journal.find(OUT, seq)
        if at >= 0 and journal.found_mid != mid:
            at = -1
    i = session.row_at(at)
    if at < 0 or (i >= 0 and session.states[i] & GIVEN_UP):
        return False
    if session.out_left and session.rest is None and session.out_address == at:
        return None
    session.begin()
    session.count[counters.DROPPED] += 1
    if journal.found_state & RELEASED or may_be_received(session, at):
        _release(session, at, i)
    else:
        if i >= 0 and session.states[i] & STATE == _ACK and session.protocol_level == 5:
            session.owed += 1
        give_up(session, at)
    journal.commit()
    session.busy = False
    return True


def _release(session, address, i):
    # The broker may have the message of this record, which was just found, and of row i: only its PUBREL goes.
    journal = session.journal
    mid = journal.found_mid
    aside = journal.found_seq < session.seq
    journal.mark(address, RELEASED)
    if i >= 0:
        state = session.states[i]
        # A PUBREL follows the PUBREC [MQTT-4.3.3-1].
        session.states[i] = GIVEN_UP | (REL | DUP if state & STATE == SEND else state)
    elif aside and session.rows < session.limit:
        session.aside.forget(mid)
        session.set_row(session.rows, mid, address, GIVEN_UP | REL | DUP)
        session.rows += 1
    session.waiting = True


# --- messages that the journal has lost, or that are none ---

_MOST_TRAILER = const(131)  # bytes of an OUT record behind its PUBLISH
_MOST_NOTICES = const(16)  # of messages that were damaged


def is_publish(journal, at):
    """True if the record just found is a PUBLISH of QoS 1 or 2, of its Message ID, with a trailer at most."""
    buf = bytearray(7)
    left = journal.found_len
    i = journal.read(at, 0, buf)
    digits = 1
    while digits < 4 and buf[i + digits] & 0x80:
        digits += 1
    if left < 5 + digits or buf[i] >> 4 != PUBLISH or buf[i] & 6 not in (2, 4) or buf[i + digits] & 0x80:
        return False
    topic = buf[i + 1 + digits] << 8 | buf[i + 2 + digits]
    size = length(buf, i)
    if size < 5 + digits + topic or not size <= left <= size + _MOST_TRAILER:
        return False
    i = journal.read(at, 3 + digits + topic, buf)
    return buf[i] << 8 | buf[i + 1] == journal.found_mid


def find_lost(journal):
    """Each live OUT record is a whole PUBLISH, or no use to anybody, since a broker would close each connection: such a
    one is dropped."""
    at = journal.scan(OUT, -1)
    while at >= 0:
        if is_publish(journal, at):
            at = journal.scan(OUT, at)
        else:
            found = journal.found_mid, journal.found_seq
            if found not in journal.lost:  # else the flash failed when it was found before
                journal.lost.append(found)
            _drop_lost(journal, at)
            at = journal.scan(OUT, -1)


class _Place:
    # Where a record is, while others are copied.

    def __init__(self, at):
        self.at = at

    def moved(self, old, new):
        if self.at == old:
            self.at = new

    def can_spare(self, at):
        return False


def _drop_lost(journal, at):
    # The live record at address `at` is whole, and no use: it counts as damaged, durably before it is gone, so that it
    # counts twice rather than never.
    owner = journal.owner
    place = journal.owner = _Place(at)
    try:
        journal.damaged += 1
        journal._begin()
        journal._dirty = 1
        try:
            journal._make_space(NOTES)
            journal._note()
        except OutboxFull:
            pass  # the next NOTEs tell it
        journal._sync()
        journal.failed = False
        journal.mark(place.at, DONE)
        journal.commit()
    finally:
        journal.owner = owner


def tell_lost(session, lost=()):
    """Counts the messages, and tells the application, as far as anything is known of them. Without any: numbers were
    passed over, of which the newest message may have had one."""
    session.count[DROPPED] += len(lost)
    session.count[DAMAGED] += len(lost) or 1
    session.lost += len(lost) or 1
    known = [message for message in lost if message][:_MOST_NOTICES]
    for mid, seq in known:
        session.notices += (MessageDamaged(1, mid, seq),)
    if len(lost) > len(known) or not lost:
        session.notices += (MessageDamaged(len(lost) - len(known)),)
