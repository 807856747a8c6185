# Mounting a journal: what a power cut interrupted is finished, every record read once. The theory
# stands in journal. This room is needed once; a device forgets it afterwards.

import os
import struct
from binascii import crc32

from .journal import CRC, DONE, HEAD, HEADER, NOTE, OUT


def mount(j):
    n = j._n
    seqs = [_sector_seq(j, i) for i in range(n)]
    newest = seqs.index(max(seqs))
    formatted = seqs[newest] >= 0
    j.epoch = _epoch_of(j, newest) if formatted else struct.unpack("<I", os.urandom(4))[0]
    j.next_seq = j.last_mid = j.used = j.live = j.damaged = 0
    j._cursor_seq = j._pinned = 0
    j._young = -1
    j._ordered = True
    if not formatted:
        newest = n - 1
    elif j._once and j._is_set(newest * j._size + j._first - j._unit):
        seqs[(newest + 1) % n] = -1
    elif seqs[(newest + 1) % n] >= 0 and _last_byte(j, newest, j._first) >= 0:
        # An unfinished copy of the tail.
        if not j._once:
            j._retire(newest)
        j._erase(newest, seqs[newest])
    damaged = _heal(j, seqs, newest) and formatted
    _find_head(j, seqs)
    j._cursor = j._oldest()
    _recover(j)
    j._sound = True
    if damaged:
        j.damaged += damaged
        # The numbers given in a sector that is lost must not come again.
        j.next_seq += damaged * (j._size // j._span(0))
        span = j._span(0)
        j._bury(j.append(NOTE, j.last_mid, b"", 0), NOTE, span)


def _sector_seq(j, sector):
    # The sequence number of a sector, -1 if it is not one of ours.
    h = bytearray(HEADER)
    j._read(sector * j._size, h)
    head = memoryview(h)[:16]
    if h[:3] != b"IFJ" or not (j._volatile or struct.unpack_from("<I", h, 16)[0] == crc32(head)):
        return -1
    if h[:8] != j._identity:
        raise ValueError("a journal of another geometry or version is here: not touched")
    return struct.unpack_from("<I", h, 8)[0] if h[11] < 0xFF else -1  # no flash lasts so long


def _epoch_of(j, sector):
    h = bytearray(4)
    j._read(sector * j._size + 12, h)
    return struct.unpack("<I", h)[0]


def _last_byte(j, sector, off):
    # Offset of the last programmed byte of a sector from `off` on, -1 if there is none. From the end, in large
    # chunks: a ring that is mostly blank is all read, and each read costs an RP2040 a millisecond. In no larger ones:
    # here a client needs the most heap of all.
    chunk = bytearray(min(j._size, 512))
    at = j._size
    while at > off:
        at = max(0, at - len(chunk))
        j._read(sector * j._size + at, chunk)
        written = len(chunk.rstrip(b"\xff"))
        if written:
            last = at + written - 1
            return last if last >= off else -1
    return -1


def _heal(j, seqs, newest):
    # Gives every invalid sector a new header: its number is its predecessor's plus one. Returns
    # how many were not behind the newest, where power cuts an erase: those were damaged.
    damaged = 0
    behind = True
    for k in range(1, j._n + 1):
        i = (newest + k) % j._n
        if seqs[i] >= 0:
            behind = False
        else:
            seqs[i] = seqs[i - 1] + 1
            j._erase(i, seqs[i])
            damaged += not behind
    return damaged


def _find_head(j, seqs):
    n = j._n
    newest = seqs.index(max(seqs))
    j.erases = seqs[newest] + 1
    j._clean = 0
    while j._clean < n - 1 and _last_byte(j, (newest - j._clean) % n, j._first) < 0:
        j._clean += 1
    j._head = (newest - j._clean) % n
    j._off = j._size


def _recover(j):
    # Reads every record once; ends behind the last byte that was ever programmed. Only the last
    # record can have been cut short: others that are broken were damaged since.
    last = -1
    end = j._first
    broken = False
    at = j._next(j._oldest())
    while at >= 0:
        j.damaged += broken
        broken = _recover_record(j, at)
        last = at
        if at // j._size == j._head:
            end = at % j._size + j._span(j.found_len)
        at = j._next(j._behind(at))
    if last >= 0:
        _refresh(j, last)
    trace = _last_byte(j, j._head, end)
    j._off = end if trace < 0 else (trace // j._unit + 1) * j._unit


def _recover_record(j, at):
    # Drops a record that was cut short, and finishes a mark that was. Returns True if it dropped it.
    n = j.found_len
    state = j._state(at)
    if not _intact(j, at):
        if state != DONE:
            j._settle(at, n, DONE)
        return state != DONE
    if state and not j._once and j._mark[0] not in b"\x00\x0f\xf0":
        j._settle(at, n, state)
    if state != DONE:
        j._count(at, j._kind, j._span(n))
    if j._kind == OUT or j._kind == NOTE:
        if j.found_seq >= j.next_seq:
            j.next_seq = j.found_seq + 1
            j.last_mid = j.found_mid
            j._pin(at, j._span(n) if state == DONE else 0)
        elif state != DONE:
            j._ordered = False
    return False


def _intact(j, at):
    # By the CRC-32 of the record together with its own, which is the same for all. In large chunks, since
    # each read costs; none reaches into the next sector, which may be somewhere else.
    if j._volatile:
        return True
    n = HEAD + j.found_len + CRC
    chunk = bytearray(min(j._size, 256))
    view = memoryview(chunk)
    crc = 0
    end = at - at % j._size + j._size
    while n:
        start = max(0, at + len(chunk) - end)
        j._read(at - start, chunk)
        k = min(n, len(chunk) - start)
        crc = crc32(view[start : start + k], crc)
        at += k
        n -= k
    return crc == 0x2144DF1C


def _refresh(j, at):
    # The power may have gone just as the last record was finished: its bits are set again.
    if j._once or j._write:
        return
    j._load(at)
    end = at + j._span(j.found_len)
    at -= at % j._unit
    while at < end:
        j._seek(at)
        j._read(at, j._page)
        j._k = j._unit
        j._program()
        at += j._unit
