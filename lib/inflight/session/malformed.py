# A PUBLISH that cannot be taken, and that the broker sends on each connection, since it may not be acknowledged: it
# would end each connection before messages to the broker get through. So it is skipped. Messages that wait leave and
# are acknowledged, and then the connection ends. It may
# - break the protocol [MQTT-4.8.0-1]: from the second one on that a session meets, if its length is in order,
# - be of QoS 2 without space for its id. Those messages may be what takes the space.
# Loaded with the first one; and when the first bytes of a connection are no CONNACK: what speaks there may be no MQTT
# broker, since the wrong port is a common mistake.

from errno import ENOBUFS

from ..errors import OutboxFull
from ..packet import PUBLISH, ProtocolError

_OTHERS = (
    (b"HTTP", "this is HTTP: for a WebSocket give path=, else another port, like 1883"),
    (b"<", "this is HTTP: for a WebSocket give path=, else another port, like 1883"),
    (b"SSH-", "this is SSH: give another port, like 1883"),
    (b"\x15\x03", "this is TLS: give tls=, or another port, like 1883"),
    (b"\x16\x03", "this is TLS: give tls=, or another port, like 1883"),
)


def skip(session, error, kind):
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
    # How many bytes of the PUBLISH are not gone through, from d.start on; 0: it is none, or its length is
    # not in order.
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
