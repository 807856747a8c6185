# The SESSION record: found when a client is made or its journal was mounted again, and written. The theory stands in
# session.

import struct
from errno import ENOBUFS

from ..compat import const
from ..errors import OutboxFull
from ..journal.records import DONE, OUT, SESSION
from ..states import DUP, PERSISTENT, UNSURE

_FORM = "<BHIHH"  # before the client id: mode and serial number, most, below, next_unproven, unproven
_FORM_SIZE = const(11)


def find(session):
    """Finds the copies of the SESSION record. Returns True if this start found that they are gone. Raises ValueError if
    the journal serves another client id [MQTT-3.1.3-2], or is too small for this one."""
    session.record_at = session.record_copy = -1
    session.record_serial = 0
    session.mode = PERSISTENT
    session.recorded_most = session.below = 0  # which messages can have left: see session
    session.next_unproven = session.unproven = 0  # which Message IDs are not proven free: see foreign
    session.record_stale = False  # something of this has changed since write()
    journal = session.journal
    if not journal:
        return False
    n = _FORM_SIZE + len(session.client_id)
    if 2 * journal.cost(n) > journal.reserve:
        raise ValueError("client_id: %d bytes are too many for a journal of this size" % (n - _FORM_SIZE))
    at = journal.scan(SESSION, -1)
    while at >= 0:
        _read(session, at, journal.found_len)
        at = journal.scan(SESSION, at)
    lost = session.record_at < 0 and (journal.found_damaged > 1 or _had_connection(journal))
    if lost:  # both copies were damaged, perhaps: every message can have left, and none is given up
        session.mode = UNSURE
        session.recorded_most = 65535
        session.below = journal.next_seq
    session.record_stale = lost or (session.record_at >= 0) != (session.record_copy >= 0)
    return lost


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
