# Messages longer than the receive buffer. Loaded with the first one.

from ..packet import ProtocolError, valid


def start(d, i, length, body):
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
        raise ProtocolError("topic")
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
