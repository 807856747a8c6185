# The rows of a session: what the journal says of messages in flight. Loaded when a client is made, and when its journal
# was mounted again.

from array import array

from ..journal.records import IN, OUT
from ..states import ANY, DELIVERED, DUP, RECEIVED


def load_window(session):
    """The rows of messages to the broker, and which of the others can have left: the SESSION record has been found.
    Returns how many had left, at most."""
    journal = session.journal
    session.rows = 0
    if session.rows_in:
        session.rows_in = 0
    _allocate(session, session.limit)
    if session.aside or session.strikes:
        session.aside = None
        session.reach = ANY
        session.strikes = session.suspected = 0
    session.queued = 0  # messages in the journal behind the window
    session.waiting = False  # a row may be in SEND or REL
    session.seq = 0  # where the messages behind the window begin
    session.sent_below = 0  # those behind the window can have left if their number is below this
    session.below_stale = False  # some were accepted without a connection, and `below` does not tell
    session.last_mid = 0  # the id that was given last
    session.used_mid = 0  # the first id behind last_mid that was in use when it was looked for; 0: none, -1: look
    left = 0
    if journal:
        session.last_mid = journal.last_mid
        left = _find_sent(session)
        session.below_stale = journal.live > left
        session.used_mid = -1
        session.queued = journal.live
        session.refill()
    return left


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
    n = 0
    while n < session.recorded_most:
        address = journal.find(OUT, session.sent_below)
        if address < 0:
            break
        journal.read(address, 0, first)
        if journal.found_seq >= session.below and not first[0] & DUP:
            break
        session.sent_below = journal.found_seq + 1
        n += 1
    return n


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
