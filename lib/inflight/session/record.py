# How a session begins, and begins again when its journal was mounted: its fields, and what the journal knows of it.

import struct
import sys
from array import array
from errno import ENOBUFS

from ..compat import const
from ..errors import OutboxFull
from ..journal.records import ASIDE, DONE, IN, OUT, OVERHEAD, RELEASED, SESSION
from ..packet import PUBREL, ack
from ..states import ANY, CLEAN, DELIVERED, DUP, ENDING, PERSISTENT, RECEIVED, UNSURE

if sys.implementation.name == "micropython":
    from array import array as Counters  # its items wrap, so that counting never fails
else:
    from ..cpython import Counters

_FORM_SIZE = const(11)  # bytes of the SESSION record before the client id, see below
_ASSIGNED = const(48)  # bytes of a client id that a broker assigns, as is expected


def start(
    session,
    client_id,
    max_inflight=8,
    receive_maximum=20,
    keepalive=0,
    retry_ms=0,
    when_full=None,
    timeout_ms=0,
):
    """The fields of a Session that is kept in its journal (None: nothing is sent above QoS 0, and ids of received QoS 2
    messages stay in RAM). max_inflight and receive_maximum bound the messages in flight each way. keepalive: ms without
    a packet after which a PINGREQ is sent; retry_ms: the first interval between repetitions (0: never); timeout_ms: how
    long an answer may take.

    Raises ValueError if the journal serves another client id [MQTT-3.1.3-2], or is smaller than half the buffer."""
    journal = session.journal
    if journal and len(session.out) > journal.size:
        raise ValueError("buffer: twice the %d bytes of the journal at most" % journal.size)
    session.keep_alive = keepalive
    session.timeout_ms = timeout_ms
    session.count = Counters("I", bytes(4 * session.counters))
    session.present = False  # session present of the last CONNACK
    session.code = 0  # its return code
    session.deliver = False  # the application is owed the piece that next_event() returned
    session.redelivered = False  # it may have had that message before, when power was cut
    session.completed = 0  # Message ID that next_event() completed last; its reader sets it back
    session.client_id = client_id
    session.retry = retry_ms
    session.tick = min(1000, keepalive * 2 // 15 or 1000, retry_ms or 1000)  # its timers are looked at this often, ms
    session.when_full = when_full
    session.limit = max_inflight  # rows of messages to the broker
    session.most_in = receive_maximum
    if journal:  # as many ids as it has space for beside both copies of the SESSION record
        n = OVERHEAD + _FORM_SIZE + (len(client_id) or _ASSIGNED)
        session.most_in = max(1, min(receive_maximum, (journal.reserve - 2 * n) // OVERHEAD))
    session.busy = False  # an operation is under way, or one that did not come to its end left things half done
    # Is it told that a start passed over numbers? After a failure, which is none, the journal knows whose they were.
    told = not journal or not journal.found_skipped or None in journal.lost
    try:
        session._load()
    except OSError:  # as within a mount: what went to a worn page is a record that was cut short
        if not journal.failed:
            raise
        session._load()
    if not told:
        from .drop import tell_lost

        tell_lost(session)


def load(session):
    """Builds what the journal knows."""
    journal = session.journal
    if journal:
        _own(session, journal)
        if session.mids:
            from .drop import find_lost

            find_lost(journal)  # sending one may have failed
    lost = _find_record(session)
    if journal and journal.lost:
        from .drop import tell_lost

        tell_lost(session, journal.lost)
        journal.lost = []
    session.foreign = None  # ForeignIds, as long as there are some
    session.most = _load_window(session)  # how many messages can have left
    if journal:
        if journal.scan(IN, -1) >= 0:
            session.expect_qos_2()
        if lost or (journal.found_damaged and journal.found_skipped and session.record_at >= 0):
            after_damage(session)
        elif session.unproven:
            suspect(session, session.next_unproven, session.unproven)
        if session.record_stale:
            write(session, session.most)
        journal.found_damaged = journal.found_skipped = 0


def _find_record(session):
    # A function of its own, as the next one: on a board what only this needs is given back before more is loaded.
    return find(session)


def _load_window(session):
    return load_window(session)


def _own(session, journal):
    # A client holds its journal while it has a connection, or attempts to connect: not from its constructor on, which
    # may be interrupted, so that nobody has the client. Whoever is made at another time takes the journal over; the
    # client before it knows nothing of what happens there, and may not use it any more.
    owner = journal.owner
    if owner and owner is not session:
        if owner.holds_journal:
            raise ValueError("another client uses this journal: disconnect() it first, or make a journal for each")
        owner.busy = True
    if journal.failed:  # also where the client before this one was interrupted
        journal.recover()
    journal.owner = session


# --- the SESSION record ---
# The theory stands in session.

_FORM = "<BHIHH"  # before the client id: mode and serial number, most, below, next_unproven, unproven
_BELOW_END = const(7)  # what is behind it is right in a record that is released


def find(session):
    """Finds the copies of the SESSION record. Returns True if this start found that they are gone. Raises ValueError if
    the journal serves another client id [MQTT-3.1.3-2], or is too small for this one."""
    session.record_at = session.record_copy = -1
    session.record_serial = 0
    session.again_mid = 1
    session.mode = PERSISTENT
    session.recorded_most = session.below = 0  # which messages can have left: see session
    session.next_unproven = session.unproven = 0  # which Message IDs are not proven free: see ForeignIds
    session.record_stale = False  # something of this has changed since write()
    if session.strikes:
        session.strikes = 0
    journal = session.journal
    if not journal:
        return False
    n = _FORM_SIZE + len(session.client_id)
    if 2 * journal.cost(n) + OVERHEAD > journal.reserve:
        raise ValueError("client_id: %d bytes are too many for a journal of this size" % (n - _FORM_SIZE))
    at = journal.scan(SESSION, -1)
    while at >= 0:
        _read(session, at, journal.found_len)
        at = journal.scan(SESSION, at)
    lost = session.record_at < 0 and (journal.found_damaged > 1 or _had_connection(journal))
    if lost:  # both copies were damaged, perhaps: none is given up
        session.mode = UNSURE
    if lost or session.record_stale:  # every message can have left
        session.recorded_most = 65535
        session.below = journal.next_seq
    session.record_stale = lost or session.record_stale or (session.record_at >= 0) != (session.record_copy >= 0)
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
    session.again_mid = journal.found_mid or session.again_mid
    stale = journal.found_state & RELEASED > 0
    found = session.record_at >= 0
    if found and serial == session.record_serial and session.record_copy < 0:
        session.record_copy = at
        session.record_stale = session.record_stale or stale
        return
    if found and (serial - session.record_serial & 15) > 8:
        journal.mark(at, DONE)  # an older one: power was cut before it was marked
        return
    _mark(journal, session.record_at, DONE)
    _mark(journal, session.record_copy, DONE)
    session.record_copy = -1
    session.record_at = at
    session.record_stale = stale
    session.record_serial = serial
    session.mode = body[0] & 3
    if body[0] & 12:
        session.strikes = body[0] >> 2 & 3
    found = struct.unpack_from(_FORM, body, 0)
    _, session.recorded_most, session.below, session.next_unproven, session.unproven = found


def write(session, most, anew=False):
    """Makes the SESSION record durable. The old second copy stays until there is a new one: damage to one copy costs
    nothing, wherever power is cut. Where the first one says all this, the second one alone is written. Power cuts and
    worn pages can leave no space. If nothing but most and below has changed, the old copies are marked then: every
    message can have left. That takes no space, and messages that are completed make some. most: how many messages can
    have left. anew: the second copy is another one in any case, for its Message ID. Raises OSError if flash fails, or
    if there is no space for another change."""
    journal = session.journal
    session.record_stale = False
    session.recorded_most = min(most, 65535)
    body = bytearray(_FORM_SIZE + len(session.client_id))
    if session.record_at >= 0:
        journal.read(session.record_at, 0, body)
    if body != _body(session):
        known = body
        session.record_serial = session.record_serial + 1 & 15
        body = _body(session)
        try:
            address = journal.append(SESSION, 0, body, len(body))
        except OutboxFull as e:
            session.record_serial = session.record_serial - 1 & 15
            session.record_stale = True
            same = (known[0] ^ body[0]) & 3 == 0 and known[_BELOW_END:] == body[_BELOW_END:]
            if not same or session.record_at < 0 or session.mode in (ENDING, CLEAN):
                raise OSError(ENOBUFS, str(e))
            _mark(journal, session.record_at, RELEASED)
            _mark(journal, session.record_copy, RELEASED)
            journal.commit()
            return
        old = session.record_at  # where it is now: append() may have moved it
        session.record_at = address
        journal.commit()
        _mark(journal, old, DONE)
    elif session.record_copy >= 0 and not anew:
        return
    try:
        copy = journal.append(SESSION, session.again_mid, body, len(body))  # not 0: it is not a record that was moved
    except OutboxFull:
        session.record_stale = True  # one will do until there is space
        copy = -1
    journal.commit()
    old = session.record_copy
    session.record_copy = copy
    _mark(journal, old, DONE)


def _body(session):
    first = session.mode | min(session.strikes, 3) << 2 | session.record_serial << 4
    body = struct.pack(_FORM, first, session.recorded_most, session.below, session.next_unproven, session.unproven)
    return body + session.client_id


def _mark(journal, address, state):
    if address >= 0:
        journal.mark(address, state)


# --- the rows: what the journal says of messages in flight ---


def load_window(session):
    """The rows of messages to the broker, and which of the others can have left: the SESSION record has been found.
    Returns how many had left, at most."""
    journal = session.journal
    session.rows = 0
    if session.rows_in:
        session.rows_in = 0
    _allocate(session, session.limit)
    if session.aside:
        session.aside = None
        session.reach = ANY
    session.queued = 0  # messages in the journal behind the window
    session.waiting = False  # a row may be in SEND or REL
    session.seq = 0  # where the messages behind the window begin
    session.sent_below = 0  # those behind the window can have left if their number is below this
    session.below_stale = False  # some were accepted without a connection, and `below` does not tell
    session.last_mid = 0  # the id that was given last
    session.asked = None
    session.used_mid = 0  # the first id behind last_mid that was in use when it was looked for; 0: none, -1: look
    left = 0
    if journal:
        session.last_mid = journal.last_mid
        left = _find_sent(session)
        session.below_stale = journal.live > left
        session.used_mid = -1
        session.queued = journal.live
        session.refill()
        if session.rows and session.states[0] & DUP:
            session.suspected = session.mids[0]
    return min(left, session.recorded_most)


def _allocate(session, n):
    # The columns get n rows: all of them, or none if there is no memory.
    mids = array("H", bytes(2 * n))
    addresses = array("I", bytes(4 * n))
    states = bytearray(n)  # see states
    for i in range(session.rows):
        mids[i] = session.mids[i]
        addresses[i] = session.addresses[i]
        states[i] = session.states[i]
    session.addresses = addresses
    session.states = states
    session.mids = mids  # last: its length tells that there are rows for messages from the broker


def _find_sent(session):
    journal = session.journal
    first = bytearray(1)
    n = aside = 0
    most = session.recorded_most
    if most and session.mode != CLEAN:
        most += journal.waiting
    while n < most:  # without those that are set aside
        address = journal.find(OUT, session.sent_below)
        if address < 0:
            break
        journal.read(address, 0, first)
        if journal.found_seq >= session.below and not first[0] & DUP:
            break
        session.sent_below = journal.found_seq + 1
        if journal.found_state & ASIDE:
            aside += 1
        else:
            n += 1
    return n + aside


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
        state = DELIVERED if journal.found_state & RELEASED else RECEIVED
        session.set_row(limit + session.rows_in, journal.found_mid, at, state)
        session.rows_in += 1
        at = journal.scan(IN, at)


# --- Message IDs of a foreign session ---
# The broker has it for our client id, and the journal does not know it. The broker
# may hold some of its ids as those of QoS 2 messages, and would take new messages under these ids for repetitions. A
# PUBREL frees an id [MQTT-4.3.3-2]. So before a QoS 2 message is sent under an id that is not proven free, PUBRELs are
# sent for it and some ids behind it.

_PROBES = const(16)  # PUBRELs in one write; the smallest buffer has space for them


class ForeignIds:
    """The ids that are not proven free: n of them, from `mid` on, in the order in which they are given. The SESSION
    record has both numbers."""

    def __init__(self, session, mid, n):
        self._session = session
        session.record_stale = session.record_stale or session.unproven != n or session.next_unproven != mid
        session.next_unproven = mid
        session.unproven = n
        self._proven = 0  # so many of the first are free; the record does not have it yet
        self._wanted = 0  # the id under which a message waits
        self.reset()

    def reset(self):
        """The connection ended."""
        self.asked = 0  # a bit for each PUBREL that is unanswered, from that of next_unproven on
        self.pinged = False  # a PINGREQ was sent behind them

    def is_unproven(self, mid):
        """True if the broker may hold this id."""
        return (mid - self._session.next_unproven) % 65535 < self._session.unproven

    def write_probes(self, buf, wanted):
        """Puts PUBRELs for the next ids into buf: a message waits for its id `wanted`. Returns their size in bytes."""
        self._wanted = wanted
        n = 0
        mid = self._first()
        for _ in range(self._next()):
            n = ack(buf, PUBREL, mid, 0, n)
            mid = mid % 65535 + 1
        self.asked = (1 << n // 4) - 1
        self.pinged = False
        return n

    def is_answer(self, mid):
        """A PUBCOMP arrived. Returns True if it answers one of the PUBRELs."""
        k = (mid - self._first()) % 65535
        if k >= _PROBES or not self.asked >> k & 1:
            return False
        self.asked &= ~(1 << k)
        if not self.asked:
            self._prove()
        return True

    def ping_answered(self):
        """A PINGRESP arrived: the broker has received what was sent before its PINGREQ, and does not answer PUBRELs for
        ids that it does not hold, or will later. Returns True if some were unanswered."""
        unanswered = self.asked > 0 and self.pinged
        if unanswered:
            self._prove()
        return unanswered

    def _first(self):
        return (self._session.next_unproven + self._proven - 1) % 65535 + 1

    def _next(self):
        return min(_PROBES, self._session.unproven - self._proven)

    def _prove(self):
        session = self._session
        self._proven += self._next()
        self.asked = 0
        if (self._wanted - session.next_unproven) % 65535 >= self._proven:
            return
        session.next_unproven = self._first()
        session.unproven -= self._proven
        self._proven = 0
        write(session, session.recorded_most)  # before a message leaves under one of these ids


def suspect(session, mid, n=65535):
    """The broker may hold n Message IDs, the next one is `mid`, for messages that the journal does not know."""
    session.foreign = ForeignIds(session, mid, n)


def oldest_mid(session):
    """Returns the id of the oldest message, or that of the next one."""
    address = session.journal.find(OUT, 0)
    return session.last_mid % 65535 + 1 if address < 0 else session.journal.found_mid


def after_damage(session):
    """Nobody knows which ids are free, but those of messages that are still there, from the oldest to the last one: a
    PUBREL of ours would end their handshakes. Those of them that were not proven free before are not now."""
    oldest = oldest_mid(session)
    last = session.last_mid
    first = session.next_unproven
    n = 65535
    if (oldest - first) % 65535 >= session.unproven:
        if not session.unproven or (first - oldest) % 65535 > (last - oldest) % 65535:
            first = last % 65535 + 1
        n = (oldest - first) % 65535 or 65535
    suspect(session, first, n)
