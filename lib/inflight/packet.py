# The wire format of MQTT 3.1.1 (level 4) and 3.1 (level 3), and its words: packets are written into a buffer of the
# caller. packet_buffer reads them. Nothing here allocates on the way of a PUBLISH or an acknowledgement.

from .compat import const, copy

CONNECT = const(1)
CONNACK = const(2)
PUBLISH = const(3)
PUBACK = const(4)
PUBREC = const(5)
PUBREL = const(6)
PUBCOMP = const(7)
SUBSCRIBE = const(8)
SUBACK = const(9)
UNSUBSCRIBE = const(10)
UNSUBACK = const(11)
PINGREQ = const(12)
PINGRESP = const(13)
DISCONNECT = const(14)

_MAX_REMAINING = const(268435455)
LONGEST = const(268435460)  # bytes of a packet, with its fixed header


MALFORMED = const(0x81)
ERROR = const(0x82)


class ProtocolError(Exception):
    """The peer broke the protocol: the connection is closed [MQTT-4.8.0-1]. reason_code: of the DISCONNECT that tells a
    broker of level 5 [MQTT5-4.13.1-1]."""

    def __init__(self, text, reason_code=ERROR):
        super().__init__(text)
        self.reason_code = reason_code


def valid(buf, i, end, name, strict=True):
    """True if buf[i:end] is UTF-8 that MQTT allows: no surrogates and no U+0000 [MQTT-1.5.3-1,
    1.5.3-2]; with `name`, no wildcards either [MQTT-3.3.2-2]. `strict`: nor what a sender should
    avoid and a receiver may refuse, control and non-characters."""
    while i < end:
        c = buf[i]
        i += 1
        if c < 0x80:
            if not c or (strict and (c < 0x20 or c == 0x7F)) or (name and (c == 0x23 or c == 0x2B)):
                return False
            continue
        more = 1 if c < 0xE0 else 2 if c < 0xF0 else 3
        if c < 0xC2 or c > 0xF4 or i + more > end:
            return False
        c &= 0x3F >> more
        for _ in range(more):
            d = buf[i]
            i += 1
            if d & 0xC0 != 0x80:
                return False
            c = c << 6 | d & 0x3F
        # Shortest form only, no surrogates; no C1 controls, no non-characters.
        if c < (0x80 if more == 1 else 0x800 if more == 2 else 0x10000) or c > 0x10FFFF or 0xD800 <= c < 0xE000:
            return False
        if strict and (c < 0xA0 or 0xFDD0 <= c < 0xFDF0 or c & 0xFFFE == 0xFFFE):
            return False
    return True


def begin(buf, first, remaining, i=0):
    # Writes the fixed header to buf[i:]; a packet is only begun when it is known to fit.
    if remaining > _MAX_REMAINING:
        raise ValueError("packet too long for MQTT: send less")
    buf[i] = first
    i += 1
    while remaining > 127:
        buf[i] = remaining & 0x7F | 0x80
        remaining >>= 7
        i += 1
    buf[i] = remaining
    return i + 1


def check_size(buf, remaining):
    # 5 bytes are the longest fixed header.
    if remaining + 5 > len(buf):
        raise ValueError("buffer too small: %d bytes needed" % (remaining + 5))


def put_string(buf, i, data):
    buf[i] = len(data) >> 8
    buf[i + 1] = len(data) & 0xFF
    return copy(buf, i + 2, data)


def publish(buf, topic, size, qos, retain, mid, block=b""):
    """Writes a PUBLISH up to its payload of `size` bytes: topic is bytes, mid is not written at QoS 0; block: the
    properties of level 5. Returns where the payload goes. Raises ValueError if the head does not fit."""
    head = len(topic) + (4 if qos else 2) + len(block)
    check_size(buf, head)
    i = put_string(buf, begin(buf, 0x30 | qos << 1 | (1 if retain else 0), head + size), topic)
    if qos:
        buf[i] = mid >> 8
        buf[i + 1] = mid & 0xFF
        i += 2
    return copy(buf, i, block)


def length(buf, i):
    """Returns the length of the packet that begins at buf[i]."""
    n = shift = 0
    k = i
    c = 0x80
    while c & 0x80 and shift < 28:  # more is no length: that of a record which is no packet
        k += 1
        c = buf[k]
        n |= (c & 0x7F) << shift
        shift += 7
    return n + k + 1 - i


def ack(buf, kind, mid, dup=0, i=0):
    """Writes PUBACK, PUBREC, PUBREL or PUBCOMP to buf[i:]; `dup` (8) marks a PUBREL re-sent at
    level 3. Returns the index behind it."""
    buf[i] = kind << 4 | (2 | dup if kind == PUBREL else 0)
    buf[i + 1] = 2
    buf[i + 2] = mid >> 8
    buf[i + 3] = mid & 0xFF
    return i + 4


def bare(buf, kind):
    """Writes PINGREQ or DISCONNECT. Returns 2."""
    buf[0] = kind << 4
    buf[1] = 0
    return 2


def compact(buf, start, end):
    """Moves buf[start:end] to the front of buf, byte by byte: no memory is allocated. Returns its new end."""
    k = 0
    for i in range(start, end):
        buf[k] = buf[i]
        k += 1
    return k
