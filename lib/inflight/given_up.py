# A message that is given up, by the application or for another reason. Loaded when that happens.

import inflight.counters as counters

from .compat import const
from .records import DONE, OUT, RELEASED
from .states import DUP, GIVEN_UP, REL, SEND, STATE

_ACK = const(1)


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
