# What a message in the journal is at level 5: mqtt5 tells how the journal keeps it. Loaded when that has to be
# known of all of them.

import inflight.packet as packet

from ..journal.records import OUT, RELEASED
from .lengths5 import digits_for, digits_in

_EXPIRY = 2  # the property
_STAMP = 4  # bytes
_START = 7  # bytes of a record up to the length of the topic, at most


def _start(journal, address):
    # (its first bytes, where they begin, bytes of the PUBLISH)
    start = bytearray(_START)
    at = journal.read(address, 0, start)
    return start, at, packet.length(start, at)


def has_expiry(journal, address, size):
    """True if the properties of the record at `address`, a PUBLISH of `size` bytes with a trailer, have an expiry."""
    first = bytearray(1)
    journal.read(address, size, first)
    return first[0] == _EXPIRY


def _properties(journal, address, size):
    # Their bytes.
    trailer = journal.found_len - size
    return trailer - _STAMP if trailer and has_expiry(journal, address, size) else trailer


def packet_size(journal, address):
    """Returns the size of the packet that the record at `address` becomes; found_len is that of the record."""
    _, _, size = _start(journal, address)
    n = _properties(journal, address, size)
    digits = digits_in(size)
    return size + 1 + n - digits + digits_for(size - digits + n)


def space_needed(journal, address):
    """Returns how many bytes of a send buffer the packet needs that the record at `address` becomes: what is in front
    of its payload, twice its fixed header."""
    start, at, size = _start(journal, address)
    n = _properties(journal, address, size)
    digits = digits_in(size)
    topic = at + 1 + digits
    return 6 + n + digits_for(size - digits + n) + (start[topic] << 8 | start[topic + 1])


def check_space(journal, space):
    """Raises ValueError if a message needs more than the `space` bytes of the send buffer: a life before had a larger
    one, or another level."""
    from ..session.lost_messages import is_publish

    at = journal.scan(OUT, -1)
    while at >= 0:
        needed = space_needed(journal, at)
        if journal.found_state != RELEASED and needed > space and is_publish(journal, at):
            raise ValueError("buffer: %d bytes at least, for a message in the journal" % (2 * needed))
        at = journal.scan(OUT, at)
