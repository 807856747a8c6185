# How a session begins: its fields, and what its journal knows. Loaded when a client is made, and when its journal was
# mounted again.

import sys

from ..journal.records import IN

if sys.implementation.name == "micropython":
    from array import array as Counters  # its items wrap, so that counting never fails
else:
    from ..cpython import Counters


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
        if session.mids:
            from .lost_messages import check

            check(journal)  # sending one may have failed
        if journal.lost:
            from .lost_messages import tell

            tell(session, journal.lost)
            journal.lost = []
    lost = _find_record(session)
    session.foreign = None  # ForeignIds, as long as there are some
    session.most = _load_window(session)  # how many messages can have left
    if journal:
        if journal.scan(IN, -1) >= 0:
            session.expect_qos_2()
        if lost or (journal.found_damaged and journal.found_skipped and session.has_session):
            from .foreign import after_damage

            after_damage(session)
        elif session.unproven:
            from .foreign import suspect

            suspect(session, session.next_unproven, session.unproven)
        if session.record_stale:
            session.write_record(session.most)


def _find_record(session):
    # A function of its own, as the next one: what it imports is given back at its end.
    from .session_record import find

    return find(session)


def _load_window(session):
    from .window import load_window

    return load_window(session)


def _own(session, journal):
    # A client holds its journal until its connection, or its attempt to connect, has ended. Whoever is made then takes
    # the journal over; the client before it knows nothing of what happens there, and may not use it any more.
    owner = journal.owner
    if owner and owner is not session:
        if owner.holds_journal:
            raise ValueError("another client uses this journal: disconnect() it first, or make a journal for each")
        owner.busy = True
    journal.owner = session
