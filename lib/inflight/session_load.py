# How a session begins: its fields, and what its journal knows. Loaded when a client is made, and when its journal was
# mounted again.

import sys

import inflight.counters as counters

from .compat import const
from .errors import OutboxFull
from .packet_buffer import PacketBuffer
from .records import DONE, IN, NOTES, OUT
from .session_store import find_record, is_publish, load_window

if sys.implementation.name == "micropython":
    from array import array as Counters  # its items wrap, so that counting never fails
else:
    from .cpython import Counters

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
    half = len(buffer) - len(buffer) // 2
    if journal and half > journal.size:
        raise ValueError("buffer: twice the %d bytes of the journal at most" % journal.size)
    PacketBuffer.__init__(session, buffer, journal, protocol_level)
    session.keep_alive = keepalive
    session.timeout_ms = timeout_ms
    session.count = Counters("I", bytes(4 * session.counters))
    session.present = False  # session present of the last CONNACK
    session.code = 0  # its return code
    session.granted = b""  # return codes of the last SUBACK
    session.deliver = False  # the application is owed the piece that next_event() returned
    session.redelivered = False  # it may have had that message before, when power was cut
    session.completed = 0  # Message ID that next_event() completed last; its reader sets it back
    session.ended = ()  # those that the last CONNACK completed
    session.client_id = client_id
    session.retry = retry_ms
    session.tick = min(1000, keepalive * 2 // 15 or 1000, retry_ms or 1000)  # its timers are looked at this often, ms
    session.when_full = when_full
    session.limit = max_inflight  # rows of messages to the broker
    session.most_in = receive_maximum
    session.loaded = False  # what the journal knows
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
        if session.loaded:
            _check_messages(session, journal)  # sending one may have failed
        if journal.lost:
            _tell_lost(session, journal.lost)
            journal.lost = []
    find_record(session)
    session.foreign = None  # ForeignIds, as long as there are some
    load_window(session)
    session.loaded = True
    session.most = session.sent_before  # how many messages can have left
    if journal:
        if journal.scan(IN, -1) >= 0:
            session.expect_qos_2()
        if session.record_lost or (journal.found_damaged and journal.found_skipped and session.has_session):
            from .foreign import after_damage

            after_damage(session)
        elif session.unproven:
            from .foreign import suspect

            suspect(session, session.next_unproven, session.unproven)
        if session.record_stale:
            session.write_record(session.most)


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
