# PUBLISH from the broker: how it is decoded, and what the session makes of it. Loaded with the first one, and then it
# stays: its functions are methods of Decoder and Session from then on. Many clients only publish.

import inflight.counters as counters
import inflight.packet as packet

from .errors import OutboxFull
from .packet import ProtocolError, valid
from .states import DUPLICATE, REDELIVERED


def add_methods(Decoder, Session):
    """Makes what stands here methods of these classes. Decoder._publish comes last: it is what calls this, and does so
    again after an interrupt."""
    Session._handle_publish = arrived
    Session.delivered = delivered
    Session.acknowledge = acknowledge
    Decoder._piece = decode_piece
    Decoder._publish = decode


# --- methods of Decoder ---


def decode(d, i, n):
    """Decoder._publish(): a PUBLISH of the remaining length n, which begins at d.buf[i]."""
    buf = d.buf
    flags = d.flags
    qos = flags >> 1 & 3
    # At level 3 DUP means nothing at QoS 0.
    if qos == 3 or (flags & 8 and not qos and d.protocol_level > 3):
        raise ProtocolError("PUBLISH flags")
    whole = i - d.start + n <= len(buf)
    if i + (n if whole else 2) > d.end:
        return 0
    if n < 2:
        raise ProtocolError("PUBLISH length")
    length = buf[i] << 8 | buf[i + 1]
    i += 2
    body = i + length + (2 if qos else 0)
    size = n - 2 - length - (2 if qos else 0)
    if size < 0 or not length:
        raise ProtocolError("topic length")
    d.n = 0
    d.size = size
    if not whole:
        from .long_message import start

        kind = start(d, i, length, body)
        if kind >= 0:
            return kind
    if qos:
        d.mid = d._id(body - 2)
    if not valid(buf, i, i + length, True, False):
        raise ProtocolError("topic")
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
    """Decoder._piece(): the next piece of a payload."""
    if d._skip >= 0:
        from .long_message import skip_topic

        if not skip_topic(d):
            return 0
    d.at = d.start
    d.n = min(d.left, d.end - d.start)
    d.left -= d.n
    d.start += d.n
    if not d.left:
        d._tail = None
    return packet.PUBLISH if d.n or not d.size else 0


# --- methods of Session ---


def arrived(session):
    """Session._handle_publish(): the decoder has a message, or a piece of one."""
    d = session.decoder
    if not d.offset:
        session.redelivered = False
        session.deliver = True
        if d.flags & 4:
            if session.left_with_broker:
                raise OutboxFull
            received = session.expect_qos_2().received(d.mid)
            if received == DUPLICATE:
                session.deliver = False
                session.count[counters.DUPLICATES] += 1
            elif received == REDELIVERED:
                session.redelivered = True
                session.count[counters.REDELIVERED] += 1
            if session.journal:
                session.journal.commit()  # before the application has it: `redelivered` must tell if the power goes


def delivered(session):
    """Session.delivered(): the application has had what next_event() returned. A message is acknowledged when it was
    the last piece, with or without a handler [MQTT-3.3.4-1, 4.5.0-2]."""
    d = session.decoder
    if d.left:
        return
    if session.deliver:
        session.count[counters.RECEIVED] += 1
    session.acknowledge(d.flags, d.mid)


def acknowledge(session, flags, mid, answer=True):
    """Session.acknowledge(): the application is done with the message that came with these flags and Message ID.
    answer False: not on this connection."""
    session._begin()
    if flags & 4 and session.inbound:
        session.inbound.delivered(mid)
    if answer and flags & 6:
        session._ack_due = (packet.PUBACK if flags & 2 else packet.PUBREC) << 20 | mid
    session.busy = False
