# Messages that are discarded: the journal is full, or their session has ended. Loaded when that happens.

import inflight.counters as counters

from .compat import const
from .records import DONE, OUT
from .states import ALONE, DUP, REL, SEND, STATE

_GIVEN_UP = const(32)  # see marks


def make_space(session, size):
    """Drops messages when the journal is full: the oldest waiting ones, if that frees enough, else the new one. Returns
    True if the new one fits."""
    journal = session.journal
    excess = journal.used + journal.cost(size) - journal.limit
    helps = session.when_full == "oldest" and can_drop(session.outbound, excess)
    while not journal.fits(OUT, size):
        session.count[counters.DROPPED] += 1
        if not (helps and drop_oldest(session.outbound)):
            return False
    return True


def can_drop(window, excess):
    """True if the messages that drop_oldest() would give up make `excess` bytes free."""
    journal = window.journal
    told = 0
    address = _droppable(window) if excess > 0 else -1
    while address >= 0 and excess > 0:
        excess -= journal.cost(journal.found_len)
        behind = journal.found_seq + 1
        if behind <= window.seq:
            told += 1
        address = _droppable(window, behind, told)
    return excess <= 0


def drop_oldest(window):
    """Gives up the oldest message that was set aside, or is behind the window. Returns False if there is none that the
    broker has certainly never seen, or can have twice: half a handshake cannot be taken back."""
    address = _droppable(window)
    if address < 0:
        return False
    behind = window.journal.found_seq + 1
    if behind <= window.seq:
        window.aside.drop(window, address)
        return True
    _drop(window, address)
    # Nothing is left in front of the next one, so nobody need look there again.
    if window.seq >= window.sent_below:
        window.seq = behind
    else:
        window.sent_below = behind
    return True


def _droppable(window, seq=0, told=0):
    # Returns the address of the first one from this number on. With rising numbers only: a journal is asked for lower
    # ones at the price of reading it from its beginning.
    journal = window.journal
    if window.aside:
        address = window.aside.droppable(window, seq, told)
        if address >= 0:
            return address
    address = journal.find(OUT, max(seq, window.seq, window.sent_below)) if window.queued else -1
    if address < 0 and window.queued:
        window.oldest()
    return address


def _drop(window, address):
    window.journal.mark(address, DONE)
    window.queued -= 1


def discard(window):
    """Gives up the messages that were sent, or may have been: they belong to a session that
    ends [MQTT-3.1.2-6]. Those that never left stay. Returns how many went."""
    n = 0
    for i in range(window.rows - 1, -1, -1):
        if window.states[i] & (STATE | DUP) != SEND:
            window.journal.mark(window.addresses[i], DONE)
            window.remove(i)
            n += 1
    while window.queued:
        address = window.oldest()
        if address < 0 or window.journal.found_seq >= window.sent_below:
            break
        _drop(window, address)
        n += 1
    if window.aside:
        n += window.aside.discard(window)
    window.refill()
    return n


def session_lost(window):
    """The broker has lost the session. A PUBREL goes out once more; one that was already sent
    to a broker without the session, and not answered, has nobody left to answer it. Returns the Message IDs
    that end so: the broker has these messages since its PUBREC."""
    ended = []
    for i in range(window.rows - 1, -1, -1):
        if window.states[i] & _GIVEN_UP:
            window.finish(i)
        elif window.states[i] & STATE >= REL:
            if window.states[i] & ALONE:
                ended.append(window.mids[i])
                window.finish(i)
            else:
                window.states[i] |= ALONE
    return ended
