# What the journal knows of a session: which messages can have left, and the SESSION record, which is found and written
# here. Loaded when a client is made, when its journal was mounted again, and when that record is written.

import struct
from array import array
from errno import ENOBUFS

from .compat import const
from .errors import OutboxFull
from .packet import PUBLISH, length
from .records import DONE, IN, OUT, SESSION
from .states import ANY, DELIVERED, DUP, PERSISTENT, RECEIVED, UNSURE

_FORM = "<BHIHH"  # before the client id: mode and serial number, most, below, next_unproven, unproven
_FORM_SIZE = const(11)
_MOST_TRAILER = const(131)  # bytes of an OUT record behind its PUBLISH


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


def load_window(session):
    """The rows of messages to the broker, and which of the others can have left: the SESSION record has been found."""
    journal = session.journal
    session.rows = session.rows_in = 0
    _allocate(session, session.limit)
    session.aside = None  # SetAside, once something was
    session.reach = ANY  # so many rows, from the oldest on, may be sent
    session.strikes = session.suspected = 0  # see suspects
    session.queued = 0  # messages in the journal behind the window
    session.waiting = False  # a row may be in SEND or REL
    session.seq = 0  # where the messages behind the window begin
    session.sent_below = 0  # those behind the window can have left if their number is below this
    session.sent_before = 0  # so many had left, at most, when this life began
    session.below_stale = False  # some were accepted without a connection, and `below` does not tell
    session.last_mid = 0  # the id that was given last
    session.used_mid = 0  # the first id behind last_mid that was in use when it was looked for; 0: none, -1: look
    if journal:
        session.last_mid = journal.last_mid
        _find_sent(session)
        session.below_stale = journal.live > session.sent_before
        session.used_mid = -1
        session.queued = journal.live
        session.refill()


def _allocate(session, n):
    # The columns get n rows.
    rows = session.rows
    old = (session.mids, session.addresses, session.states) if rows else ()
    session.mids = array("H", bytes(2 * n))
    session.addresses = array("I", bytes(4 * n))
    session.states = bytearray(n)  # see states
    for i in range(rows):
        session.set_row(i, *(column[i] for column in old))


def _find_sent(session):
    journal = session.journal
    first = bytearray(1)
    while session.sent_before < session.recorded_most:
        address = journal.find(OUT, session.sent_below)
        if address < 0:
            break
        journal.read(address, 0, first)
        if journal.found_seq >= session.below and not first[0] & DUP:
            break
        session.sent_below = journal.found_seq + 1
        session.sent_before += 1


def load_received(session):
    """The rows of messages of QoS 2 from the broker: those in the journal, and most_in others; twice most_in at most,
    since a restart must not give more space to a broker that never releases any."""
    journal = session.journal
    limit = session.limit
    most = session.most_in
    kept = 0
    at = journal.scan(IN, -1) if journal else -1
    while at >= 0:
        kept += 1
        at = journal.scan(IN, at)
    _allocate(session, limit + (kept + most if kept <= most else kept))
    at = journal.scan(IN, -1) if kept else -1  # scanning a long journal takes an RP2040 a second
    while at >= 0:
        state = DELIVERED if journal.found_state else RECEIVED
        session.set_row(limit + session.rows_in, journal.found_mid, at, state)
        session.rows_in += 1
        at = journal.scan(IN, at)


def find_record(session):
    """Finds the copies of the SESSION record. Raises ValueError if the journal serves another client id
    [MQTT-3.1.3-2], or is too small for this one."""
    session.record_at = session.record_copy = -1
    session.record_serial = 0
    session.mode = PERSISTENT
    session.recorded_most = session.below = 0  # which messages can have left: see session
    session.next_unproven = session.unproven = 0  # which Message IDs are not proven free: see foreign
    session.record_stale = False  # something of this has changed since write()
    session.record_lost = False  # this start found that the record is gone
    journal = session.journal
    if not journal:
        return
    n = _FORM_SIZE + len(session.client_id)
    if 2 * journal.cost(n) > journal.reserve:
        raise ValueError("client_id: %d bytes are too many for a journal of this size" % (n - _FORM_SIZE))
    at = journal.scan(SESSION, -1)
    while at >= 0:
        _read(session, at, journal.found_len)
        at = journal.scan(SESSION, at)
    if session.record_at < 0 and (journal.found_damaged > 1 or _had_connection(journal)):
        # Both copies were damaged, perhaps: every message can have left, and none is given up.
        session.record_lost = True
        session.mode = UNSURE
        session.recorded_most = 65535
        session.below = journal.next_seq
    session.record_stale = session.record_lost or (session.record_at >= 0) != (session.record_copy >= 0)


def _had_connection(journal):
    # True if a message was accepted with a connection: then there was a record.
    first = bytearray(1)
    at = journal.scan(OUT, -1)
    while at >= 0:
        journal.read(at, 0, first)
        if first[0] & DUP:
            return True
        at = journal.scan(OUT, at)
    return False


def _read(session, at, n):
    journal = session.journal
    body = bytearray(n)
    journal.read(at, 0, body)
    if n < _FORM_SIZE or body[_FORM_SIZE:] != session.client_id:
        raise ValueError("the journal serves another client id: use that one, or format the journal")
    serial = body[0] >> 4
    found = session.record_at >= 0
    if found and serial == session.record_serial and session.record_copy < 0:
        session.record_copy = at
        return
    if found and (serial - session.record_serial & 15) > 8:
        journal.mark(at, DONE)  # an older one: power was cut before it was marked
        return
    _end(journal, session.record_at)
    _end(journal, session.record_copy)
    session.record_copy = -1
    session.record_at = at
    session.record_serial = serial
    session.mode = body[0] & 3
    found = struct.unpack_from(_FORM, body, 0)
    _, session.recorded_most, session.below, session.next_unproven, session.unproven = found


def write(session, most):
    """Makes the SESSION record durable. The old second copy stays until there is a new one: damage to one copy costs
    nothing, wherever power is cut. most: how many messages can have left. Raises OSError if flash fails."""
    journal = session.journal
    session.record_stale = False
    session.record_serial = session.record_serial + 1 & 15
    session.recorded_most = min(most, 65535)
    first = session.mode | session.record_serial << 4
    body = struct.pack(_FORM, first, session.recorded_most, session.below, session.next_unproven, session.unproven)
    body += session.client_id
    try:
        address = journal.append(SESSION, 0, body, len(body))
    except OutboxFull as e:
        session.record_stale = True
        raise OSError(ENOBUFS, str(e))
    old = session.record_at  # where it is now: append() may have moved it
    session.record_at = address
    journal.commit()
    _end(journal, old)
    try:
        copy = journal.append(SESSION, 1, body, len(body))  # 1: it is not a record that was moved
    except OutboxFull:
        session.record_stale = True  # one will do until there is space
        copy = -1
    journal.commit()
    old = session.record_copy
    session.record_copy = copy
    _end(journal, old)


def _end(journal, address):
    if address >= 0:
        journal.mark(address, DONE)
