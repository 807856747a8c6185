# PUBLISH from the broker: how it is decoded, and what the session makes of it. Loaded with the first one, and then it
# stays: many clients only publish. The theory stands in session.

import inflight.counters as counters
import inflight.packet as packet

from ..errors import OutboxFull
from ..journal.records import DONE, IN, RELEASED
from ..packet import ProtocolError, valid
from ..states import DELIVERED, DUPLICATE, NEW, RECEIVED, REDELIVERED

# --- bytes ---


def decode(d, i, n):
    """A PUBLISH of the remaining length n, which begins at d.buf[i]. Returns what next_packet() does."""
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
    """The next piece of a payload."""
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
    i = session.row(mid, session.limit)
    if i >= 0:
        return DUPLICATE if session.states[i] == DELIVERED else REDELIVERED
    i = session.limit + session.rows_in
    if i == len(session.mids):
        raise OutboxFull
    journal = session.journal
    session.set_row(i, mid, journal.append(IN, mid, b"", 0) if journal else 0, RECEIVED)
    session.rows_in += 1
    return NEW


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
