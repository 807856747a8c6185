# What the journal of a session knows. Loaded when a client is made, and when its journal was mounted again.

from .journal import IN, OUT
from .outbound import DUP, Outbound
from .session_record import SessionRecord


def load(session):
    """Builds what the journal knows."""
    journal = session.journal
    outbound = getattr(session, "PARTS", (Outbound,))[-1]  # level 5 has another
    record = session.record = SessionRecord(journal, session.client_id)
    session.foreign = None  # ForeignIds, as long as there are some
    session.outbound = outbound(journal, session._max_inflight, record.below, record.most)
    session.inbound = None  # Inbound, once QoS 2 is to be expected
    session._most = session.outbound.sent_before  # how many messages can have left
    if journal:
        journal.owner = session
        if journal.scan(IN, -1) >= 0:
            session.expect_qos_2()
        if record.lost or (journal.damaged and journal.skipped and record.has_session):
            from .foreign import after_damage

            after_damage(session)
        elif record.unproven:
            from .foreign import suspect

            suspect(session, record.next_unproven, record.unproven)
        if record.stale:
            session.write_record()


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
