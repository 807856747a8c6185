# Messages that are sent from the journal at level 5: mqtt5 tells how it keeps them. Loaded with the first one
# that is not in the send buffer any more.

from errno import ENOBUFS

import inflight.packet as packet

from ..compat import const
from .lengths5 import digits_for, digits_in

_EXPIRY = const(2)  # the property
_STAMP = const(4)  # bytes
_MOST = const(131)  # bytes of a trailer


def load(session, address, dup):
    """Puts the PUBLISH of the record at `address` into the buffer: reads it behind a margin; then its head moves up and
    leaves space for the properties. Returns how many bytes are there, 0: it has expired. Raises OSError."""
    session.forget()
    session._accepted = -1
    buf = session.out
    journal = session.journal
    journal.check(address)
    trailer = journal.found_len
    old = session._behind_margin
    at = journal.read(address, 0, old)
    size = packet.length(old, at)
    trailer -= size
    session.check_message(old[at], size)
    data = b""
    k = n = 0
    if trailer:
        data = session._read_trailer = session._read_trailer or bytearray(_MOST)
        k = journal.read(address, size, data)
        n = trailer - _STAMP if data[k] == _EXPIRY else trailer
    digits = digits_in(size)
    topic = at + 1 + digits
    head = 5 + digits + (old[topic] << 8 | old[topic + 1])  # bytes in front of the payload
    remaining = size - digits + n
    growth = 1 + n + digits_for(remaining) - digits
    if growth > len(buf) - len(old) or head > len(old):
        # A wide margin leaves less space for the topics of other messages, so it is the one that this one needs.
        if growth + head > len(buf):
            raise OSError(ENOBUFS, "topic and properties of a message do not fit the buffer")
        old = session._behind_margin = buf[growth:]
        at = journal.read(address, 0, old)
        topic = at + 1 + digits
    # Byte i of `old` is byte i + margin of `buf`.
    margin = len(buf) - len(old)
    payload = at + head
    block = payload + margin - 1 - n
    first = old[at] | 8 if dup else old[at] & 0xF7
    start = at + margin - growth
    packet.begin(buf, first, remaining, start)
    for i in range(topic, payload):
        buf[i + margin - 1 - n] = old[i]
    buf[block] = n
    for i in range(n):
        buf[block + 1 + i] = data[k + i]
    if not session.is_fresh(block, data, k + n, dup):
        return 0  # as if nobody had asked
    end = min(at + size, len(old))
    session.view = buf
    session.out_at = start
    session.out_address = address
    session._out_offset = end - at
    session.out_left = at + size - end
    session.rest = None
    return end + margin - start
