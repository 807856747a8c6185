# Copies that a power cut left beside their originals: the third part of mounting a journal. Both are live then, and
# one of them is given up. A copy stands in the head, its original in the oldest sector, which is another one.

from .records import DONE, HEAD, NOTES, OVERHEAD, RELEASED
from .sector_repair import set_state


def settle(j, reader):
    """Originals of which there are copies become done. Or the head is erased, and all is to be read again: returns
    False then. No other sector is erased in that case, so nothing but copies went there, and not all of them."""
    copies, originals = _find_copies(j, reader)
    if not j._erased and _is_head_unfinished(j, reader, copies, originals):
        reader.gone += reader.in_head
        if not copies:  # else what follows them is one, cut short
            reader.passed += reader.lost
        reader.head_erased = True
        j.erases -= 1
        reader.has_programmed(j._reclaim, j._head)  # if not, what is left of the header is that of an erase cut short
        return False
    for copy, original in _pairs(j, copies, originals):
        _drop(j, reader, copy, original)
    return True


def _find_copies(j, reader):
    # Where in the head records stand that can be copies, and where in the oldest sector records of which they can be.
    if not j._erased:
        return reader.copies, reader.originals
    size = j._size
    last = reader.last
    if last // size == j._head != j._tail() == reader.first // size and last == reader.last_live:
        return (last % size,), (reader.first % size,)
    return (), ()


def _is_head_unfinished(j, reader, copies, originals):
    if reader.head_erased or (j._worn == j._head and j._off + j.reserve <= j._size):
        return False  # what messages need to leave has space behind the page that is worn
    head = j._head * j._size
    if j._newest // j._size == j._head and not any(head + at == j._newest for at in copies):
        return False  # NOTEs
    found = sum(1 for _ in _pairs(j, copies, originals))
    if found < len(copies):
        return False
    no_space = j._newest // j._size == j._tail() and j._off + NOTES > j._size
    return not found or no_space or found < len(originals)


def _pairs(j, copies, originals):
    # Yields the address of each copy with that of its original. They are in the same order.
    header = bytearray(HEAD)
    head = j._head * j._size
    tail = j._tail() * j._size
    k = 0
    for original in originals:
        j._read(tail + original, header)
        for i in range(k, len(copies)):
            j._read(head + copies[i], j._h)
            if j._h == header:
                yield head + copies[i], tail + original
                k = i + 1
                break


def _drop(j, reader, copy, original):
    j._load(original)
    kind = j._kind
    n = j.found_len
    if j._state(original) == RELEASED:  # the last byte of the copy
        set_state(reader, copy, n, RELEASED)
        j._sync()
    set_state(reader, original, n, DONE)
    j._count(original, kind, -n - OVERHEAD)
