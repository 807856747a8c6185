# Copies that a power cut left beside their originals: the third part of mounting a journal. Both are live then, and
# one of them is given up.

from array import array

from .records import DONE, HEAD, NOTES, OVERHEAD
from .sector_repair import set_state


def settle(j, reader):
    """Originals of which there are copies become done. Or the head is erased, and all is to be read again: returns
    False then. No other sector is erased in that case, so nothing but copies went there, and not all of them."""
    copies = _find_copies(j, reader)
    if not j._erased and _is_head_unfinished(j, reader, copies):
        reader.gone += reader.in_head
        if not copies:  # else what follows them is one, cut short
            reader.passed += reader.lost
        j.erases -= 1
        j._reclaim(j._head)
        return False
    if reader.last >= 0:
        _refresh(j, reader.last)
    for copy, original in _pairs(j, reader, copies):
        _drop(j, reader, copy, original)
    return True


def _find_copies(j, reader):
    # Addresses of the records that can be copies of some in the oldest sector.
    found = array("I")
    if not j._erased:
        for at, live in reader.records(j._head):
            if live:
                found.append(at)
    elif reader.first >= 0 and reader.first // j._size == j._tail() and reader.first != reader.last:
        found.append(reader.last)
    return found


def _is_head_unfinished(j, reader, copies):
    tail = j._tail()
    if reader.worn == j._head or j._bad // j._size == j._head:
        return False  # it would be worn again when it is erased
    if j._newest // j._size == j._head and not any(at == j._newest for at in copies):
        return False  # NOTEs
    found = sum(1 for _ in _pairs(j, reader, copies))
    if found < len(copies):
        return False
    no_space = j._newest // j._size == tail and j._off + NOTES > j._size
    return not found or no_space or found < reader.count_records(tail)[1]


def _pairs(j, reader, copies):
    # Yields the address of each copy with that of its original. They are in the same order.
    header = bytearray(HEAD)
    k = 0
    for original, live in reader.records(j._tail()):
        if k == len(copies):
            break
        if not live:
            continue
        j._read(original, header)
        for i in range(k, len(copies)):
            j._read(copies[i], j._h)
            if j._h == header:
                yield copies[i], original
                k = i + 1
                break
        if j._erased:
            break  # the first live one, or none


def _drop(j, reader, copy, original):
    j._load(original)
    state = j._state(original)
    kind = j._kind
    n = j.found_len
    if state:  # the last byte of the copy
        set_state(reader, copy, n, state)
        j._sync()
    set_state(reader, original, n, DONE)
    j._count(original, kind, -n - OVERHEAD)


def _refresh(j, at):
    # The power may have gone just as the last record was finished: its bits are set again.
    if j._write:
        return
    j._load(at)
    end = at + j.found_len + OVERHEAD
    at -= at % j._unit
    while at < end:
        j._seek(at)
        j._read(at, j._page)
        j._k = j._unit
        j._program()
        at += j._unit
