# Which sectors of a ring count, in which order: the first part of mounting a journal. FORMAT.md, "Which sectors count",
# tells the rules.

import os
import struct
from binascii import crc32
from struct import unpack_from

from .records import HEADER, LOSSES, NEVER
from .sector_reader import decide

_VERSION = 2
_ALIKE = 12  # bytes of a damaged header, of 24, that are as they ought to be; a retired or erased one has fewer


def restore(j, reader):
    """Finds the head of `j` and how many sectors are erased. Finishes erases, or the format, and gives lost sectors a
    header again. Raises ValueError."""
    headers = _read_headers(j)
    newest = _elect(j, headers)
    secrets = os.urandom(8) if newest < 0 else headers[newest % j._n][1]
    j._identity = bytearray(_geometry(j) + secrets)
    j._identity[LOSSES] = max([header[2] for header in headers if header and header[1] == secrets], default=0)
    j.epoch = _word(secrets, 0)
    j._salt_low, j._salt_high = struct.unpack("<HH", secrets[4:])
    _begin_at(j, newest)
    while newest >= 0 and _is_damaged_newest(j, newest + 1, headers):
        newest += 1
        _include_damaged(j, reader, newest, headers, secrets)
    for k in range(1, j._n + 1):
        i = (newest + k) % j._n
        seq = _number(j, newest, i)
        if headers[i] and headers[i][:2] == (seq, secrets):
            continue
        # A right header with another number is that of another time: the sector was lost, never half erased.
        alike = not headers[i] and _likeness(j, i, seq) >= _ALIKE
        if seq < 0 or (k == 1 and not headers[i] and _is_erase_unfinished(j, reader, i, alike)):
            _erase(j, reader, i, j.erases)
            _begin_at(j, j.erases)
        elif reader.is_used(i) or not alike:
            _read_headless(j, reader, seq, k, alike)
    _find_head(j, reader)
    reader.closed = _likeness(j, j._head, _number(j, j.erases - 1, j._head)) < HEADER


def _begin_at(j, newest):
    # The ring ends with the sector of that number, until its head is found.
    j.erases = newest + 1
    j._head = newest % j._n
    j._erased = 0


def _is_damaged_newest(j, seq, headers):
    # True if the next sector of the ring has the number `seq`, which is the newest then, and a damaged header.
    i = seq % j._n
    return not headers[i] and _likeness(j, i, seq) > max(_ALIKE - 1, _likeness(j, i, seq - j._n))


def _include_damaged(j, reader, seq, headers, secrets):
    i = seq % j._n
    _begin_at(j, seq)
    if not reader.count_records(i)[0]:  # blank, or its erase or its header was cut short
        _erase(j, reader, i, seq)
        headers[i] = seq, secrets, 0


def _is_erase_unfinished(j, reader, i, alike):
    # The oldest sector, i, has a damaged header. One that is alike is left by no erase, but it may be that of a sector
    # that was erased ahead. And a sector is erased only while another one is in use.
    if alike:
        return not reader.is_used(i)
    return any(reader.is_used(other) for other in range(j._n) if other != i)


def _read_headers(j):
    # (sequence number, epoch and salt) of each sector whose header is right, None of the others.
    found = []
    h = bytearray(HEADER)
    geometry = _geometry(j)
    for i in range(j._n):
        _read_header(j, i, h)
        _refuse_others(h)
        right = h[:3] == b"IFJ" and (j._volatile or crc32(memoryview(h)[:20]) == _word(h, 20))
        losses = h[LOSSES]
        h[LOSSES] = 0
        if right and h[:8] != geometry:
            raise ValueError("a journal of another geometry is here: not touched")
        seq = _word(h, 8)
        found.append((seq, bytes(h[12:20]), losses) if right and seq < NEVER and seq % j._n == i else None)
    return found


def _read_header(j, i, h):
    j._read(i * j._size, h)
    if not j._write:
        decide(j, i * j._size, h, bytearray(HEADER))


def _refuse_others(h):
    # The format before this one had a header of 16 bytes and their CRC.
    if h[:3] == b"IFJ" and h[3] != _VERSION and _word(h, 16) == crc32(memoryview(h)[:16]):
        raise ValueError("a journal of format %d is here: erase it with inflight.erase(device)" % h[3])


def _geometry(j):
    size = 0
    while j._size >> size + 1:
        size += 1
    return struct.pack("<3sBBBH", b"IFJ", _VERSION, size, 0, j._n)


def _number(j, newest, i):
    # The sequence number that sector i has in a ring whose newest sector has the number `newest`.
    return newest - (newest - i) % j._n


def _elect(j, headers):
    # The number of the newest sector, -1 if there is none: that with which most sectors agree.
    best = 0
    newest = -1
    for header in headers:
        if header:
            ring = [(_number(j, header[0], i), header[1]) for i in range(j._n)]
            votes = sum(bool(other) and other[:2] == right for other, right in zip(headers, ring))
            if votes > best or (votes == best and header[0] > newest):
                best = votes
                newest = header[0]
    return newest


def _read_headless(j, reader, seq, k, alike):
    # The sector with the number `seq`, the k-th oldest, was in use, and its header is not right.
    found, live = reader.count_records(seq % j._n)
    if not found and not alike:
        reader.erased += 1
        j.damaged += 2  # more than one record may have been in it
        _erase(j, reader, seq % j._n, seq)
        return
    if live or k > 1:  # else it may have been retired in part
        j.damaged += 1
        reader.headers += 1
    if not alike:
        reader.spoilt.append(seq % j._n)


def _erase(j, reader, i, seq):
    # A header with bits that cannot be cleared is as good as one with bits that flipped.
    if not reader.has_programmed(j._erase, i, seq) and _likeness(j, i, seq) < _ALIKE:
        j._fail("a sector of the journal does not take its header")


def _likeness(j, i, seq):
    # How many bytes of sector i's header are as the number `seq` wants them.
    h = bytearray(HEADER)
    _read_header(j, i, h)
    right = j._identity[:8] + struct.pack("<I", seq & 0xFFFFFFFF) + j._identity[8:]
    right[LOSSES] = h[LOSSES]
    right += struct.pack("<I", 0 if j._volatile else crc32(right))
    return sum(a == b for a, b in zip(h, right))


def _find_head(j, reader):
    # The newest sector with more behind its header than bits that cannot be set, the oldest if there is none.
    newest = j._head
    has_bits = False
    while j._erased < j._n - 1:
        used = reader.is_used(j._head)
        if used and reader.has_records_or_damage():
            break
        has_bits = used
        j._erased += 1
        j._head = (newest - j._erased) % j._n
    # Such bits in the sector behind it may be all of a record that was cut short, unless it was just erased.
    if has_bits and not reader.head_erased:
        j._erased -= 1
        j._head = (j._head + 1) % j._n


def _word(buf, i):
    return unpack_from("<I", buf, i)[0]
