# A message that is given up, by the application or for another reason. Loaded when that happens.

import inflight.counters as counters

from ..compat import const
from ..journal.records import DONE, OUT, RELEASED
from ..states import DUP, GIVEN_UP, REL, SEND, STATE

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


def drop_copies(session):
    """All records without a row are copies of messages that had their turn."""
    journal = session.journal
    at = journal.scan(OUT, -1)
    while at >= 0:
        if session.row_at(at) < 0:
            journal.mark(at, DONE)
        at = journal.scan(OUT, at)


def discard_message(session, mid):
    """The application gives up message `mid`. Returns True if it was pending; None: it is being written in pieces. A
    PUBREL ends what the broker may know of its Message ID; that it was given up is not known after a restart, nor of a
    message that waits: then the end of the handshake counts as completed, too. Raises OSError if flash fails."""
    journal = session.journal
    at = journal.scan(OUT, -1) if journal else -1
    while at >= 0 and journal.found_mid != mid:
        at = journal.scan(OUT, at)
    i = session.row_at(at)
    if at < 0 or (i >= 0 and session.states[i] & GIVEN_UP):
        return False
    if session.out_left and session.rest is None and session.out_address == at:
        return None
    session.begin()
    session.count[counters.DROPPED] += 1
    if journal.found_state or may_be_received(session, at):
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
