# How a session begins: its fields, what its journal knows, and the SESSION record, which is found and written here.
# Loaded when a client is made, when its journal was mounted again, and when that record is written.

import struct
import sys
from errno import ENOBUFS

import inflight.counters as counters

from .compat import const
from .errors import OutboxFull
from .journal import DONE, IN, OUT, SESSION
from .keep_alive import KeepAlive
from .outbound import DUP, Outbound
from .packet import PUBLISH, Decoder, length
from .records import NOTES
from .send_buffer import SendBuffer
from .session_record import UNSURE, SessionRecord

if sys.implementation.name == "micropython":
    from array import array as Counters  # its items wrap, so that counting never fails
else:
    from .cpython import Counters

_MOST_TRAILER = const(131)  # bytes of an OUT record behind its PUBLISH
_MOST_NOTICES = const(16)  # of messages that were damaged


def start(
    session,
    journal,
    buffer,
    client_id,
    protocol_level=4,
    max_inflight=8,
    receive_maximum=20,
    keepalive=0,
    retry_ms=0,
    when_full=None,
    timeout_ms=0,
):
    """The fields of a Session that is kept in `journal` (None: nothing is sent above QoS 0, and ids of received QoS 2
    messages stay in RAM). The first half of `buffer` receives, the second sends. max_inflight and receive_maximum bound
    the messages in flight each way. keepalive: ms without a packet after which a PINGREQ is sent; retry_ms: the first
    interval between repetitions (0: never); timeout_ms: how long an answer may take.

    Raises ValueError if the journal serves another client id [MQTT-3.1.3-2], or is smaller than half the buffer."""
    decoder, send_buffer = getattr(session, "PARTS", (Decoder, SendBuffer))[:2]  # level 5 has others
    half = len(buffer) // 2
    if journal and len(buffer) - half > journal.size:
        raise ValueError("buffer: twice the %d bytes of the journal at most" % journal.size)
    session.out = send_buffer(memoryview(buffer)[half:], journal)
    session.decoder = decoder(memoryview(buffer)[:half], protocol_level)
    session.keep_alive = KeepAlive(keepalive, timeout_ms)
    session.count = Counters("I", bytes(4 * session.counters))
    session.present = False  # session present of the last CONNACK
    session.code = 0  # its return code
    session.granted = b""  # return codes of the last SUBACK
    session.deliver = False  # the application is owed the piece that next_event() returned
    session.redelivered = False  # it may have had that message before, when power was cut
    session.completed = 0  # Message ID that next_event() completed last; its reader sets it back
    session.ended = ()  # those that the last CONNACK completed
    session.client_id = client_id
    session.outbound = None
    session._retry = retry_ms
    session.tick = min(1000, keepalive * 2 // 15 or 1000, retry_ms or 1000)  # its timers are looked at this often, ms
    session.when_full = when_full
    session._max_inflight = max_inflight
    session._receive_maximum = receive_maximum
    session.busy = False  # an operation is under way, or one that did not come to its end left things half done
    try:
        session._load()
    except OSError:  # as within a mount: what went to a worn page is a record that was cut short
        if not journal.failed:
            raise
        journal.recover()
        session._load()


def load(session):
    """Builds what the journal knows."""
    journal = session.journal
    if journal:
        _own(session, journal)
        if session.outbound:
            _check_messages(session, journal)  # sending one may have failed
        if journal.lost:
            _tell_lost(session, journal.lost)
            journal.lost = []
    outbound = getattr(session, "PARTS", (Outbound,))[-1]  # level 5 has another
    record = session.record = SessionRecord(journal, session.client_id)
    session.foreign = None  # ForeignIds, as long as there are some
    session.outbound = outbound(journal, session._max_inflight, record.below, record.most)
    session.inbound = None  # Inbound, once QoS 2 is to be expected
    session._most = session.outbound.sent_before  # how many messages can have left
    if journal:
        if journal.scan(IN, -1) >= 0:
            session.expect_qos_2()
        if record.lost or (journal.found_damaged and journal.found_skipped and record.has_session):
            from .foreign import after_damage

            after_damage(session)
        elif record.unproven:
            from .foreign import suspect

            suspect(session, record.next_unproven, record.unproven)
        if record.stale:
            session.write_record()


def _own(session, journal):
    # A client holds its journal until its connection, or its attempt to connect, has ended. Whoever is made then takes
    # the journal over; the client before it knows nothing of what happens there, and may not use it any more.
    owner = journal.owner
    if owner and owner is not session:
        if owner.holds_journal:
            raise ValueError("another client uses this journal: disconnect() it first, or make a journal for each")
        owner.busy = True
    journal.owner = session


def _check_messages(session, journal):
    # Each live OUT record is a whole PUBLISH, or no use to anybody: a broker would close each connection.
    at = journal.scan(OUT, -1)
    while at >= 0:
        if is_publish(journal, at):
            at = journal.scan(OUT, at)
        else:
            journal.lost.append((journal.found_mid, journal.found_seq))
            _drop(journal, at)
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


def _drop(journal, at):
    # The live record at address `at` is whole, and no use: it counts as damaged, durably before it is gone, so that it
    # counts twice rather than never.
    owner = journal.owner
    place = journal.owner = _Place(at)
    journal.damaged += 1
    journal._begin()
    journal._dirty = True
    try:
        journal._make_space(NOTES)
        journal._note()
    except OutboxFull:
        pass  # the next NOTEs tell it
    journal._sync()
    journal._ok = True
    journal.mark(place.at, DONE)
    journal.commit()
    journal.owner = owner


def _tell_lost(session, lost):
    # Counts the messages, and tells the application, as far as anything is known of them.
    from .refused import MessageDamaged

    session.count[counters.DROPPED] += len(lost)
    session.count[counters.DAMAGED] += len(lost)
    known = [message for message in lost if message][:_MOST_NOTICES]
    for mid, seq in known:
        session.notices += (MessageDamaged(1, mid, seq),)
    if len(lost) > len(known):
        session.notices += (MessageDamaged(len(lost) - len(known)),)


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
