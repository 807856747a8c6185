# What the journal of a session knows. Loaded when a client is made, and when its journal was mounted again.

from .compat import const
from .journal import IN, OUT
from .outbound import DUP, Outbound
from .packet import PUBLISH, length
from .session_record import SessionRecord

_MOST_TRAILER = const(131)  # bytes of an OUT record behind its PUBLISH


def load(session):
    """Builds what the journal knows."""
    journal = session.journal
    if journal:
        _own(session, journal)
        if session.outbound:
            _check_messages(session, journal)  # sending one may have failed
        _tell_lost(session, journal)
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
            from .damage import drop

            journal.lost.append((journal.found_mid, journal.found_seq))
            drop(journal, at)
            at = journal.scan(OUT, -1)


def _tell_lost(session, journal):
    if journal.lost:
        from .damage import tell

        tell(session, journal.lost)
        journal.lost = []


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
