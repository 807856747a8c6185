# Messages that are discarded: the journal is full, their session has ended, or the application gives them up. Loaded
# when that happens.

import inflight.counters as counters

from .compat import const
from .journal import DONE, OUT, RELEASED
from .marks import GIVEN_UP
from .outbound import ALONE, DUP, REL, SEND, STATE

_ACK = const(1)
_NOTICES = const(8)  # that the application has not been told yet, at most


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
        from .set_aside import tell

        tell(window.journal.owner, address, 0, False)
        give_up(window, address)
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
    aside = window.aside
    if aside and len(journal.owner.notices) + told < _NOTICES:
        first = seq = max(seq, aside.kept_below)
        while seq < window.seq:
            address = journal.find(OUT, seq)
            if address < 0 or journal.found_seq >= window.seq:
                seq = window.seq
                break
            if window.row_at(address) < 0 and not (journal.found_state or may_be_received(window, address)):
                return address
            seq = journal.found_seq + 1
            if first == aside.kept_below:
                aside.kept_below = first = seq
    address = journal.find(OUT, max(seq, window.seq, window.sent_below)) if window.queued else -1
    if address < 0 and window.queued:
        window.oldest()
    return address


def _drop(window, address):
    window.journal.mark(address, DONE)
    window.queued -= 1


def give_up(window, address):
    """The message of the record at `address` is done, and the broker does not have it. Returns its sequence number."""
    journal = window.journal
    journal.mark(address, DONE)
    seq = journal.found_seq
    i = window.row_at(address)
    if i >= 0:
        window.remove(i)
        window.refill()
    elif seq >= window.seq:
        window.queued -= 1
    else:
        window.aside.forget(journal.found_mid)
    return seq


def is_unsent(window, address):
    """True if the message of the record at `address`, which was just found, can not have been sent."""
    i = window.row_at(address)
    if i >= 0:
        return window.states[i] & (STATE | DUP) == SEND
    journal = window.journal
    if window.aside and journal.found_seq < window.seq:
        return not window.aside.may_have_left(window, journal.found_seq, journal.found_mid)
    return journal.found_seq >= window.sent_below


def may_be_received(window, address):
    """True if the broker may hold the Message ID of this message of QoS 2: another message under it would count as the
    same one."""
    first = bytearray(1)
    window.journal.read(address, 0, first)
    return first[0] & 4 > 0 and not is_unsent(window, address)


def drop_copies(window):
    """All records without a row are copies of messages that had their turn."""
    journal = window.journal
    at = journal.scan(OUT, -1)
    while at >= 0:
        if window.row_at(at) < 0:
            journal.mark(at, DONE)
        at = journal.scan(OUT, at)


def discard_message(session, mid):
    """The application gives up message `mid`. Returns True if it was pending; None: it is being written in pieces. A
    PUBREL ends what the broker may know of its Message ID; that it was given up is not known after a restart, nor of a
    message that waits: then the end of the handshake counts as completed, too. Raises OSError if flash fails."""
    journal = session.journal
    window = session.outbound
    out = session.out
    at = journal.scan(OUT, -1) if journal else -1
    while at >= 0 and journal.found_mid != mid:
        at = journal.scan(OUT, at)
    i = window.row_at(at)
    if at < 0 or (i >= 0 and window.states[i] & GIVEN_UP):
        return False
    if out.left and out.rest is None and out._address == at:
        return None
    session._begin()
    session.count[counters.DROPPED] += 1
    if journal.found_state or may_be_received(window, at):
        _release(window, at, i)
    else:
        if i >= 0 and window.states[i] & STATE == _ACK and hasattr(window, "owed"):
            window.owed += 1
        give_up(window, at)
    journal.commit()
    session.busy = False
    return True


def _release(window, address, i):
    # The broker may have the message of this record, which was just found, and of row i: only its PUBREL goes.
    journal = window.journal
    mid = journal.found_mid
    aside = journal.found_seq < window.seq
    journal.mark(address, RELEASED)
    if i >= 0:
        state = window.states[i]
        # A PUBREL follows the PUBREC [MQTT-4.3.3-1].
        window.states[i] = GIVEN_UP | (REL | DUP if state & STATE == SEND else state)
    elif aside and window.rows < len(window.mids):
        window.aside.forget(mid)
        window._add(mid, address, GIVEN_UP | REL | DUP)
    window.waiting = True


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
    journal = window.journal
    at = journal.scan(OUT, -1) if window.aside else -1
    while at >= 0:
        if journal.found_seq < window.seq and (journal.found_state or not is_unsent(window, at)):
            journal.mark(at, DONE)
            n += 1
        at = journal.scan(OUT, at)
    if window.aside:
        window.aside.session_lost()
    window.refill()
    return n


def session_lost(window):
    """The broker has lost the session. A PUBREL goes out once more; one that was already sent
    to a broker without the session, and not answered, has nobody left to answer it. Returns the Message IDs
    that end so: the broker has these messages since its PUBREC."""
    ended = []
    for i in range(window.rows - 1, -1, -1):
        if window.states[i] & STATE >= REL:
            if window.states[i] & GIVEN_UP:
                window.finish(i)
            elif window.states[i] & ALONE:
                ended.append(window.mids[i])
                window.finish(i)
            else:
                window.states[i] |= ALONE
    return ended
