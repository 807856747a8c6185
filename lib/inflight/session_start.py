# How a session begins: its fields. Loaded when a client is made. What its journal knows comes after them, in
# session_load: together they would need more heap.

import sys

from .keep_alive import KeepAlive
from .packet import Decoder
from .send_buffer import SendBuffer

if sys.implementation.name == "micropython":
    from array import array as Counters  # its items wrap, so that counting never fails
else:
    from .cpython import Counters


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
