# PUBLISH from the broker: how it is decoded, and what the session makes of it. The theory stands in session.

from errno import ENOBUFS

import inflight.counters as counters
import inflight.packet as packet

from ..compat import const
from ..errors import OutboxFull
from ..journal.records import DONE, IN, RELEASED
from ..packet import MALFORMED, PUBLISH, ProtocolError, valid
from ..states import DELIVERED, DUPLICATE, NEW, RECEIVED, REDELIVERED

_NOTICES = const(8)  # as in pending

# --- bytes ---


def decode(d, i, n):
    """A PUBLISH of the remaining length n, which begins at d.buf[i]. Returns what next_packet() does."""
    buf = d.buf
    flags = d.flags
    qos = flags >> 1 & 3
    # At level 3 DUP means nothing at QoS 0.
    if qos == 3 or (flags & 8 and not qos and d.protocol_level > 3):
        raise ProtocolError("invalid flags in PUBLISH", MALFORMED)
    whole = i - d.start + n <= len(buf)
    if i + (n if whole else 2) > d.end:
        return 0
    if n < 2:
        raise ProtocolError("invalid length of PUBLISH", MALFORMED)
    length = buf[i] << 8 | buf[i + 1]
    i += 2
    body = i + length + (2 if qos else 0)
    size = n - 2 - length - (2 if qos else 0)
    if size < 0 or not length:
        raise ProtocolError("invalid length of a topic", MALFORMED)
    d.n = 0
    d.size = size
    if not whole:
        kind = start_long(d, i, length, body)
        if kind >= 0:
            return kind
    if qos:
        d.mid = d._id(body - 2)
    if not valid(buf, i, i + length, True, False):
        raise ProtocolError("invalid topic", MALFORMED)
    d.topic = i
    d.topic_len = length
    d.start = body
    if whole:
        d.at = body
        d.n = size
        d.start += size
        return packet.PUBLISH
    d._tail = buf[body:]
    d.left = size
    return d._piece()


def decode_piece(d):
    """The next piece of a payload."""
    if d._skip >= 0:
        if not skip_topic(d):
            return 0
    d.at = d.start
    d.n = min(d.left, d.end - d.start)
    d.left -= d.n
    d.start += d.n
    if not d.left:
        d._tail = None
    return packet.PUBLISH if d.n or not d.size else 0


# --- messages ---


def arrived(session):
    """There is a message, or a piece of one."""
    if session.offset:
        return
    session.redelivered = False
    session.deliver = True
    if session.flags & 4:
        if session.left_with_broker:
            raise OutboxFull
        found = received(session, session.mid)
        if found == DUPLICATE:
            session.deliver = False
            session.count[counters.DUPLICATES] += 1
        elif found == REDELIVERED:
            session.redelivered = True
            session.count[counters.REDELIVERED] += 1
        if session.journal:
            session.journal.commit()  # before the application has it: `redelivered` must tell if the power goes


def received(session, mid):
    """A PUBLISH of QoS 2 with this id arrived. Returns NEW, REDELIVERED (power was cut while it was being delivered) or
    DUPLICATE. Raises OutboxFull if it is one more than there is space for."""
    session.expect_qos_2()
    first = session.limit
    i = session.row(mid, first)
    if i >= 0:
        if i < first + session.old_received:
            i = _come_again(session, i)
        return DUPLICATE if session.states[i] == DELIVERED else REDELIVERED
    journal = session.journal
    while first + session.rows_in == len(session.mids) or (journal and not journal.fits(IN, 0)):
        if not session.old_received:
            raise OutboxFull
        _abandon_oldest(session)
    i = first + session.rows_in
    session.set_row(i, mid, journal.append(IN, mid, b"", 0) if journal else 0, RECEIVED)
    session.rows_in += 1
    return NEW


# A broker may forget a message whose PUBREL is due: it was killed, or the message has expired. So the ids of earlier
# connections make space for new ones, the oldest first: what the broker still has, it sends again before anything new
# [MQTT-4.4.0-1] [MQTT5-4.4.0-1].


def _come_again(session, i):
    # The id of row i is one of this connection. Returns its new row.
    row = session.mids[i], session.addresses[i], session.states[i]
    session.remove(i)
    i = session.limit + session.rows_in
    session.set_row(i, *row)
    session.rows_in += 1
    return i


def _abandon_oldest(session):
    if len(session.notices) < _NOTICES:
        mid = session.mids[session.limit]
        session.notices += (OSError(ENOBUFS, "the broker does not release Message ID %d: it is forgotten" % mid),)
    session.count[counters.ABANDONED] += 1
    mark(session, session.limit, DONE)
    session.remove(session.limit)


def delivered(session):
    """Session.delivered()."""
    if session.left:
        return
    if session.deliver:
        session.count[counters.RECEIVED] += 1
    acknowledge(session, session.flags, session.mid, True)


def acknowledge(session, flags, mid, answer):
    """Session.acknowledge()."""
    session.begin()
    if flags & 4:
        i = session.row(mid, session.limit)
        if i >= 0 and session.states[i] == RECEIVED:  # the application must not have it again
            mark(session, i, RELEASED)
            session.states[i] = DELIVERED
    if answer and flags & 6:
        session.ack_due = (packet.PUBACK if flags & 2 else packet.PUBREC) << 20 | mid
    session.busy = False


def released(session):
    """A PUBREL arrived: its id is free. Raises ProtocolError if PUBREC was never sent."""
    i = session.row(session.mid, session.limit)
    if i < 0:
        return
    if session.states[i] == RECEIVED:
        raise ProtocolError("PUBREL before PUBREC, Message ID %d" % session.mid)
    mark(session, i, DONE)
    session.remove(i)


def mark(session, i, state):
    """Notes the state of row i, a message from the broker."""
    if session.journal:
        session.journal.mark(session.addresses[i], state)


# --- messages longer than the receive buffer ---


def start_long(d, i, length, body):
    """A PUBLISH begins, with a topic of that length at d.buf[i], and its payload at `body`. Returns what next() does;
    -1: the topic and the beginning of the payload are there."""
    if body - d.start >= len(d.buf):
        # No space for the payload behind the topic: skip that, the id and payload follow.
        d._skip = d.topic = length
        d.start = i
        d.topic_len = 0
        return d._piece()
    if d.start:
        # The topic has to stay while the pieces come: let it begin the buffer.
        d._compact()
        return d._packet()
    return -1 if body < d.end else 0


def skip_topic(d):
    """Skips what has come of a topic that could not be kept. Returns True when the payload follows."""
    k = d._skip
    if k > d.end - d.start:
        k = _whole(d.buf, d.start, d.end) - d.start
    if not valid(d.buf, d.start, d.start + k, True, False):
        raise ProtocolError("invalid topic", MALFORMED)
    d.start += k
    d._skip -= k
    id_len = 2 if d.flags & 6 else 0
    if d._skip or d.end - d.start < id_len:
        return False
    if id_len:
        d.mid = d._id(d.start)
        d.start += 2
    d._skip = -1
    d.left = d.size
    return True


def _whole(buf, start, end):
    # Where the last character of buf[start:end] that is complete ends.
    for i in range(end - 1, max(start, end - 4) - 1, -1):
        if buf[i] < 0x80:
            break
        if buf[i] >= 0xC0:
            return i if end - i < (2 if buf[i] < 0xE0 else 3 if buf[i] < 0xF0 else 4) else end
    return end


# --- messages that cannot be taken ---
# A PUBLISH that cannot be taken, and that the broker sends on each connection, since it may not be acknowledged: it
# would end each connection before messages to the broker get through. So it is skipped. Messages that wait leave and
# are acknowledged, and then the connection ends. It may
# - break the protocol [MQTT-4.8.0-1]: from the second one on that a session meets, if its length is in order,
# - be of QoS 2 without space for its id. Those messages may be what takes the space.
# Likewise if the first bytes of a connection are no CONNACK: what speaks there may be no MQTT broker, since the wrong
# port is a common mistake.

_OTHERS = (
    (b"HTTP", "this is HTTP: for a WebSocket give path=, else another port, like 1883"),
    (b"<", "this is HTTP: for a WebSocket give path=, else another port, like 1883"),
    (b"SSH-", "this is SSH: give another port, like 1883"),
    (b"\x15\x03", "this is TLS: give tls=, or another port, like 1883"),
    (b"\x16\x03", "this is TLS: give tls=, or another port, like 1883"),
)


def skip_malformed(session, error, kind):
    """The session met `error`, while it looked for a packet if kind is 0. Raises it, unless that is a PUBLISH to be
    skipped: then it returns what next_packet() does."""
    if isinstance(error, OutboxFull):
        return _without_space(session)
    again = getattr(session, "malformed", False)  # a PUBLISH was malformed before
    left = _bytes_left(session) if session.connected and not kind else 0
    if left:
        session.malformed = True
    if not (session.connected or session.start):
        raise _explained(error, session)
    if not (left and again and session.pending):
        raise error
    _end_later(session, error)
    # It is the rest of a message of QoS 0 that nobody gets.
    session.deliver = False
    session.flags = session.mid = session.topic_len = session.n = 0
    session._skip = -1
    session._tail = None
    session.left = left
    session.size = left + 1
    if session.protocol_level > 4:
        session._block_due = False
    return session.next_packet()


def _without_space(session):
    error = OSError(ENOBUFS, "more QoS 2 messages in flight than receive_maximum or the journal allows")
    if not session.pending:
        raise error
    _end_later(session, error)
    session.left_with_broker = True
    session.deliver = False
    session.flags = 0
    return PUBLISH


def _end_later(session, error):
    if not session.closing:
        session.closing = _close_in_time
        session.error = error
        session.closing_since = session.now


def _close_in_time(session):
    # All has been acknowledged, or an answer does not come: raises what ends the connection.
    if not (session.pending and session.time_left(session.now, session.closing_since)):
        raise session.error


def _bytes_left(d):
    # How many bytes of the PUBLISH are not gone through, from d.start on; 0: it is none, or its length is not in order.
    if d._skip >= 0:
        return d._skip + (2 if d.flags & 6 else 0) + d.size
    if d.left:
        return d.left
    i = d.start
    if i == d.end or d.buf[i] >> 4 != PUBLISH or getattr(d, "shorter", None):
        return 0
    n = shift = 0
    c = 0x80
    while c & 0x80:
        i += 1
        if i == d.end or shift > 21:
            return 0
        c = d.buf[i]
        n |= (c & 0x7F) << shift
        shift += 7
    d.start = i + 1
    return n


def _explained(error, d):
    # Returns a ProtocolError that tells more than `error`: which protocol the first bytes belong to.
    first = bytes(d.buf[: min(d.end, 16)])
    for beginning, text in _OTHERS:
        if first.startswith(beginning[: max(2, len(first))]):  # not all of it may be there
            return ProtocolError(text)
    return ProtocolError("%s; the port of an MQTT broker? The first bytes are %r" % (error, first))
