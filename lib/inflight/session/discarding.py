# Messages that are discarded: the journal is full, or their session has ended. Loaded when that happens.

import inflight.counters as counters

from ..compat import const
from ..journal.records import DONE, OUT
from ..states import ALONE, DUP, REL, SEND, STATE

_GIVEN_UP = const(32)  # see marks


def make_space(session, size):
    """Drops messages when the journal is full: the oldest waiting ones, if that frees enough, else the new one. Returns
    True if the new one fits."""
    journal = session.journal
    excess = journal.used + journal.cost(size) - journal.limit
    helps = session.when_full == "oldest" and can_drop(session, excess)
    while not journal.fits(OUT, size):
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
    for i in range(session.rows - 1, -1, -1):
        if session.states[i] & (STATE | DUP) != SEND:
            session.journal.mark(session.addresses[i], DONE)
            session.remove(i)
            n += 1
    while session.queued:
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
