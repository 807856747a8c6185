# What the journal knows of a session: which messages can have left, and the SESSION record, which is found and written
# here. Loaded when a client is made, when its journal was mounted again, and when that record is written.

import struct
from errno import ENOBUFS

from .compat import const
from .errors import OutboxFull
from .packet import PUBLISH, length
from .records import DONE, OUT, SESSION
from .states import DUP, UNSURE

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


def start_outbound(window, journal, limit, below=0, most=0):
    """The fields of an Outbound, whose class tells the arguments."""
    window.queued = 0  # messages in the journal behind the window
    window.waiting = False  # a row may be in SEND or REL
    window._allocate(limit)  # the states with the bits DUP and ALONE
    window.seq = 0  # where the messages behind the window begin
    window.sent_below = 0  # those behind the window can have left if their number is below this
    window.sent_before = 0  # so many had left, at most, when this life began
    window.below_stale = False  # some were accepted without a connection, and `below` does not tell
    window.last_mid = 0  # the id that was given last
    window._used = 0  # the first id behind last_mid that was in use when it was looked for; 0: none, -1: look
    if journal:
        window.last_mid = journal.last_mid
        _find_sent(window, below, most)
        window.below_stale = journal.live > window.sent_before
        window._used = -1
        window.queued = journal.live
        window.refill()


def _find_sent(window, below, most):
    journal = window.journal
    first = bytearray(1)
    while window.sent_before < most:
        address = journal.find(OUT, window.sent_below)
        if address < 0:
            break
        journal.read(address, 0, first)
        if journal.found_seq >= below and not first[0] & DUP:
            break
        window.sent_below = journal.found_seq + 1
        window.sent_before += 1


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
