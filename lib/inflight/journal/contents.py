# What is in the sectors of a ring: the second part of mounting a journal. Every record is read once. Then copies that
# a power cut left beside their originals: both are live, and one of them is given up. A copy stands in the head, its
# original in the oldest sector, which is another one.

from struct import unpack_from

from ..compat import const
from .records import AT_END, CLEARED, DONE, HEAD, HEADER, NOTE, NOTE_SIZE, NOTES, OUT, OVERHEAD, RELEASED
from .sector_reader import (
    count_lost,
    is_nothing,
    make_firm,
    most_numbers,
    most_records,
    retire,
    set_state,
    size_in_header,
)

_MOST_REGIONS = const(100)  # that are remembered


def read(j, reader):
    """Reads the sectors in use, the oldest first. Returns False if all is to be read again."""
    unknown = reader.unknown
    for k in range(j._erased + 1, j._n):
        _read_sector(j, reader, (j._head + k) % j._n)
    damaged = j.damaged
    _read_sector(j, reader, j._head)
    reader.in_head = j.damaged - damaged
    if reader.telling and not reader.told_of:
        # What is in front of these NOTEs was no damage when they were written, and is none now.
        reader.told_of = reader.telling
        reader.unknown = unknown
        return False
    if j._write or reader.last < 0:
        return True
    reader.aim(reader.last // j._size)
    whole = make_firm(reader, reader.last) or reader.torn_last
    reader.torn_last = not whole
    return whole


def _read_sector(j, reader, sector):
    reader.aim(sector)
    at = reader.base + HEADER
    last = reader.last_byte(at)
    end = at  # of the last record
    while at <= last:
        if reader.has_record(at):
            at = end = _take(j, reader, at)
        elif is_nothing(reader.buf[reader.load(at, 1)]):
            at += 1  # retired before
        else:
            behind = reader.next_record(at + 1, last)
            if behind < 0 and sector == j._head:
                break
            if behind in reader.told_of:
                reader.at_end.append((at, behind))
                at = behind
                continue
            behind = last + 1 if behind < 0 else behind
            size = size_in_header(reader, at)
            if size and at + size < behind:
                behind = at + size
            _count_damaged(j, reader, at, size)
            if len(reader.damaged) < _MOST_REGIONS:
                reader.damaged.append((at, behind))
            else:
                retire(reader, at, behind)
            at = behind
    if sector == j._head:
        damaged = j.damaged
        begin = at
        if at <= last:
            _count_end(j, reader, at, last + 1)
            # None of the page can be trusted, nor of the next one if the record goes on there: its program may have
            # begun, and read as blank this time: not behind a page that did not take all of it.
            behind = max(last + 1, at + (size_in_header(reader, at) or HEAD))
            if last - last % j._unit <= j._bad < behind:
                behind = j._bad + 1
            at = min(-(-behind // j._unit) * j._unit, reader.end)
        j._off = at - reader.base
        if reader.lost or j.damaged > damaged:
            # Behind the numbers that it made known, should the power go here: NOTEs go behind it first.
            left = begin + size_in_header(reader, begin)
            if left > begin and not retire(reader, left, at):
                j._off = j._size
            (reader.damaged if j.damaged > damaged else reader.at_end).append((end, at))
        # Also what is zero already is retired: the mount that did so may have been cut short.
        elif end < at and not retire(reader, end, at):
            j._off = j._size


def _count_damaged(j, reader, at, size):
    # A record of that size if its header is right (else 0). Its numbers were given then; else they may have been any.
    j.damaged += 1
    reader.regions += 1
    if size and _is_message(reader, at, size):
        reader.messages.append(unpack_from("<HI", reader.buf, reader.load(at, HEAD) + 3))
    if not size:
        reader.messages.append(None)
        reader.unknown = True
    elif _is_number_new(j, reader, at):
        j.last_mid, seq = unpack_from("<HI", reader.buf, reader.load(at, HEAD) + 3)
        j.next_seq = seq + 1
        reader.renumbered = True


def _is_message(reader, at, size):
    # True if it was a live OUT record.
    i = reader.load(at + size - 1, 1)
    return CLEARED[reader.buf[i] & 15] < 2 and reader.buf[reader.load(at, HEAD)] == OUT


def _is_number_new(j, reader, at):
    # True if the header at `at`, which is right, has a number that can have been given and is higher than all known.
    kind, _, _, seq = unpack_from("<BHHI", reader.buf, reader.load(at, HEAD))
    return (kind == OUT or kind == NOTE) and j.next_seq <= seq < most_numbers(j)


def _take(j, reader, at):
    # Counts the record, finishes a state that was half written. Returns the address behind it.
    buf = reader.buf
    i = at - reader.at
    if not 0 <= i <= reader.most:
        i = reader.load(at, OVERHEAD)
    kind = buf[i]
    n = OVERHEAD + (buf[i + 1] | buf[i + 2] << 8)
    behind = at + n
    reader.last = at
    if kind == NOTE or kind == OUT:
        seq = unpack_from("<I", buf, i + 5)[0]
        if seq + 1 >= j.next_seq:
            j.next_seq = seq + 1
            j.last_mid = buf[i + 3] | buf[i + 4] << 8
            j._newest = at
            reader.renumbered = False
            reader.notes = reader.notes + 1 if kind == NOTE else 0
        else:
            j._ordered = False
        if kind == NOTE:
            if n == OVERHEAD + NOTE_SIZE:
                reader.told = unpack_from("<IIB", buf, reader.load(at, n) + HEAD)
                j._noted = at
                reader.telling = reader.telling + (at,) if reader.told[2] & AT_END else ()
            return behind
    i += n - 1
    if i >= len(buf):
        i = reader.load(behind - 1, 1)
    state = buf[i]
    if not state & 15:
        return behind  # done, as most are
    released = CLEARED[state >> 4]
    done = CLEARED[state & 15]
    if done < 2:
        j._count(at, kind, n)
        if reader.first < 0:
            reader.first = at
        reader.last_live = at
        if not j._erased:
            _note_place(j, reader, at)
    if done > 1 or 1 < released < 4:
        set_state(reader, at, n - OVERHEAD, DONE if done > 1 else RELEASED)
    return behind


def _note_place(j, reader, at):
    sector = at // j._size
    if sector == j._tail():
        reader.originals.append(at % j._size)
    elif sector == j._head:
        reader.copies.append(at % j._size)


def _count_end(j, reader, at, end):
    # Behind the last record of the head is one that was cut short, or damaged since: if so, its number and Message
    # ID were given.
    size = size_in_header(reader, at)
    if size and _is_number_new(j, reader, at) and reader.word(at + 5) < reader.given:
        # It was whole before this mount, which is no start: damaged for sure. (A lower number: that of a copy.)
        _count_damaged(j, reader, at, size)
        reader.lost = most_records(end - at - size)
        return
    reader.lost = count_lost(reader, at, end)
    if reader.lost and size:
        if _is_number_new(j, reader, at):
            reader.lost = reader.word(at + 5) + 1 - j.next_seq
        reader.lost += most_records(end - at - size)


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
