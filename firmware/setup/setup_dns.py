# The name server of the set-up access point: it gives each name the address of the device, so that phones and computers
# find the page (RFC 1035). No I/O.

from inflight.compat import const

_HEADER = const(12)
_LONGEST = const(512)
_NAME = const(255)
_A = const(1)
_IN = const(1)


def _question_end(query):
    # The index after the only question; None if it is malformed, or has a compressed name.
    i = _HEADER
    while i < len(query) and i < _HEADER + _NAME:
        n = query[i]
        if n > 63:
            return None
        i += 1 + n
        if not n:
            return i + 4 if i + 4 <= len(query) else None
    return None


def answer(query, address):
    """Returns the response to the bytes of a query: `address`, 4 bytes, for an IPv4 address, nothing for other types.
    None: it is no such query."""
    if not _HEADER < len(query) <= _LONGEST or query[2] & 0xF8 or query[4:6] != b"\0\1":
        return None  # a response, another operation, or not one question
    end = _question_end(query)
    if not end:
        return None
    found = query[end - 4 : end] == bytes((0, _A, 0, _IN))
    head = query[:2] + bytes((0x84 | query[2] & 1, 0, 0, 1, 0, found, 0, 0, 0, 0))
    # The time to live is 0: the name means something else as soon as the set-up ends.
    record = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + address if found else b""
    return head + query[_HEADER:end] + record
