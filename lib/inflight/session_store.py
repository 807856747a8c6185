# How the SESSION record is found and written. Loaded when it is.

import struct
from errno import ENOBUFS

from .compat import const
from .errors import OutboxFull
from .journal import DONE, OUT, SESSION
from .outbound import DUP
from .session_record import UNSURE

_FORM = "<BHIHH"  # before the client id: mode and serial number, most, below, next_unproven, unproven
_FORM_SIZE = const(11)


def find(record):
    """Finds the copies of `record` in its journal. Raises ValueError if that serves another client id
    [MQTT-3.1.3-2], or is too small for this one."""
    journal = record.journal
    n = _FORM_SIZE + len(record.client_id)
    if 2 * journal.cost(n) > journal.reserve:
        raise ValueError("client_id: %d bytes are too many for a journal of this size" % (n - _FORM_SIZE))
    at = journal.scan(SESSION, -1)
    while at >= 0:
        _read(record, at, journal.found_len)
        at = journal.scan(SESSION, at)
    if not record.has_session and (journal.found_damaged > 1 or _had_connection(record.journal)):
        # Both copies were damaged, perhaps: every message can have left, and none is given up.
        record.lost = True
        record.mode = UNSURE
        record.most = 65535
        record.below = journal.next_seq
    record.stale = record.lost or record.has_session != (record.copy >= 0)


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


def _read(record, at, n):
    body = bytearray(n)
    record.journal.read(at, 0, body)
    if n < _FORM_SIZE or body[_FORM_SIZE:] != record.client_id:
        raise ValueError("the journal serves another client id: use that one, or format the journal")
    serial = body[0] >> 4
    if record.has_session and serial == record.serial and record.copy < 0:
        record.copy = at
        return
    if record.has_session and (serial - record.serial & 15) > 8:
        record.journal.mark(at, DONE)  # an older one: power was cut before it was marked
        return
    _end(record.journal, record.address)
    _end(record.journal, record.copy)
    record.copy = -1
    record.address = at
    record.serial = serial
    record.mode = body[0] & 3
    _, record.most, record.below, record.next_unproven, record.unproven = struct.unpack_from(_FORM, body, 0)


def write(record, most):
    """Makes it durable. The old second copy stays until there is a new one: damage to one copy costs nothing, wherever
    power is cut. most: how many messages can have left. Raises OSError if flash fails."""
    journal = record.journal
    record.stale = False
    record.serial = record.serial + 1 & 15
    record.most = min(most, 65535)
    body = struct.pack(
        _FORM, record.mode | record.serial << 4, record.most, record.below, record.next_unproven, record.unproven
    )
    body += record.client_id
    try:
        address = journal.append(SESSION, 0, body, len(body))
    except OutboxFull as e:
        record.stale = True
        raise OSError(ENOBUFS, str(e))
    old = record.address  # where it is now: append() may have moved it
    record.address = address
    journal.commit()
    _end(journal, old)
    try:
        copy = journal.append(SESSION, 1, body, len(body))  # 1: it is not a record that was moved
    except OutboxFull:
        record.stale = True  # one will do until there is space
        copy = -1
    journal.commit()
    old = record.copy
    record.copy = copy
    _end(journal, old)


def _end(journal, address):
    if address >= 0:
        journal.mark(address, DONE)
