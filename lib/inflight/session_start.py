# How a session begins: its fields, and what its journal knows. Loaded when a client is made, and when its journal was
# mounted again.

from array import array

from .journal import IN, OUT
from .keep_alive import KeepAlive
from .outbound import DUP, Outbound
from .packet import Decoder
from .send_buffer import SendBuffer
from .session_record import SessionRecord


def _parts(session):
    # Level 5 has others.
    return getattr(session, "PARTS", (Decoder, SendBuffer, Outbound))


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
    decoder, send_buffer, _ = _parts(session)
    half = len(buffer) // 2
    if journal and len(buffer) - half > journal.size:
        raise ValueError("buffer: twice the %d bytes of the journal at most" % journal.size)
    session.out = send_buffer(memoryview(buffer)[half:], journal)
    session.decoder = decoder(memoryview(buffer)[:half], protocol_level)
    session.keep_alive = KeepAlive(keepalive, timeout_ms)
    session.count = array("I", bytes(68))
    session.present = False  # session present of the last CONNACK
    session.code = 0  # its return code
    session.granted = b""  # return codes of the last SUBACK
    session.deliver = False  # the application is owed the piece that next_event() returned
    session.redelivered = False  # it may have had that message before, when power was cut
    session.completed = 0  # Message ID that next_event() completed last, or an exception; its reader sets it back
    session.ended = ()  # those that the last CONNACK completed
    session.client_id = client_id
    session._retry = retry_ms
    session.tick = min(1000, keepalive * 2 // 15 or 1000, retry_ms or 1000)  # its timers are looked at this often, ms
    session.when_full = when_full
    session._max_inflight = max_inflight
    session._receive_maximum = receive_maximum
    session.busy = False  # an operation is under way, or one that did not come to its end left things half done


def load(session):
    """Builds what the journal knows."""
    journal = session.journal
    record = session.record = SessionRecord(journal, session.client_id)
    session.foreign = None  # ForeignIds, as long as there are some
    session.outbound = _parts(session)[2](journal, session._max_inflight, record.below, record.most)
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
