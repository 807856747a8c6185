# Messages longer than the receive buffer, at level 5. Loaded with the first one.

from .cursor import IN_PUBLISH
from .errors5 import MALFORMED, TOO_LONG, ProtocolError5
from .packet import Decoder


def publish_long(d, i, n):
    """A PUBLISH of n bytes begins at d.buf[i], and there will be more. Returns what Decoder.next() does. Its properties
    stand whole in front of the first piece; if there is no space for them, its topic is skipped."""
    if i - d.start + n > d.maximum:
        raise ProtocolError5("PUBLISH of %d bytes, %d are allowed" % (i - d.start + n, d.maximum), TOO_LONG)
    if d.flags & 6 == 6 or d.flags & 14 == 8:
        raise ProtocolError5("PUBLISH flags", MALFORMED)  # [MQTT5-3.3.1-2] [MQTT5-3.3.1-4]
    behind = _head_end(d, i)
    if behind - i > n:
        raise ProtocolError5("PUBLISH length", MALFORMED)
    if behind - d.start > len(d.buf) // 2:
        length = d.buf[i] << 8 | d.buf[i + 1]
        d.n = 0
        d.size = n - 2 - length - (2 if d.flags & 6 else 0)
        if d.size < 1:
            raise ProtocolError5("PUBLISH length", MALFORMED)  # it has no properties, not even none
        d._skip = length
        d.start = i + 2
        d.topic_len = 0
        from .receiving import add_methods

        add_methods()  # Decoder._publish() is not called for this message, which may be the first
        return d._piece()
    if d.start:
        d._compact()
        return d._packet()
    if behind < 0 or behind >= d.end:
        return 0
    d._block_due = True
    return Decoder._publish(d, i, n)


def _head_end(d, i):
    # Where the payload of the PUBLISH begins, or how far its topic goes, if that is too far; -1: not known yet.
    buf = d.buf
    if i + 2 > d.end:
        return -1
    i += 2 + (buf[i] << 8 | buf[i + 1]) + (2 if d.flags & 6 else 0)
    if i - d.start > len(buf) // 2:
        return i
    n = shift = 0
    c = 0x80
    while c & 0x80 and shift < 28:
        if i >= d.end:
            return -1
        c = buf[i]
        i += 1
        n |= (c & 0x7F) << shift
        shift += 7
    return i + n


def properties_arrived(d):
    """What the decoder takes for the beginning of the payload are the properties."""
    d._block_due = False
    at = d.start
    d.start = d._check(at, d.end, IN_PUBLISH)
    d.size -= d.start - at
    d.left = d.size
    d._tail = d.buf[d.start :]
