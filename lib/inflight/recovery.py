# Mounting a journal: what a power cut interrupted is finished, every record read once, damage retired. The
# theory stands in journal. A device needs this module once and forgets it.

import os
import struct
from binascii import crc32
from struct import unpack_from

from .compat import const
from .journal import OutboxFull
from .pages import CHUNK
from .records import CLEARED, DONE, HEAD, HEADER, IN, NOTE, NOTES, OUT, OVERHEAD, RELEASED, SESSION

_VERSION = 2
_NEVER = 0xFF000000  # no flash lasts so many erases
_ALIKE = 12  # bytes of a damaged header, of 24, that are as they ought to be; a retired or erased one has fewer
_CRC = const(4)
_UNKEPT_IDS = 256  # Message IDs that requests may have taken in between, of which there is no record
_KINDS = (OUT, IN, SESSION, NOTE)
_MOST_REGIONS = 100  # that are remembered


def mount(j, before=None):
    # `before`: the reader of a mount that had to begin again, with what it found lost.
    j._clear_page()
    j.next_seq = j.last_mid = j.used = j.live = j._others = 0
    j.damaged = before.found if before else 0
    j.skipped = 0
    j._cursor = j._cursor_seq = 0
    j._newest = -1
    j._ordered = True
    for i in range(j._n):
        j._live[i] = 0
    reader = _SectorReader(j)
    if before:
        reader.erased = before.erased
        reader.unknown = before.unknown
        reader.passed = before.lost
        before = None
    _restore_sectors(j, reader)
    _find_head(j, reader)
    for k in range(j._erased + 1, j._n + 1):
        _read_sector(j, reader, (j._head + k) % j._n)
    if j._erased or j._live[j._head] or j._newest // j._size == j._head:
        _finish(j, reader)
        return
    # Power was cut while a long record was copied: its beginning takes the last sector, for nothing.
    j.erases -= 1
    j._reclaim(j._head)
    reader.found = j.damaged
    mount(j, reader)


class _SectorReader:
    # Reads a sector in large chunks, since each read costs an RP2040 a fraction of a millisecond; of at most 512
    # bytes, since a client needs the most heap here.

    def __init__(self, j):
        self.j = j
        self.buf = bytearray(min(j._size, 512))
        self.view = memoryview(self.buf)
        self.most = len(self.buf) - OVERHEAD  # index of the last record that could be in buf
        self.volatile = j._volatile
        self.first = -1  # address of the first live record,
        self.last = -1  # and of the last one that was taken
        self.spoilt = []  # sectors that would look like a retired one if they were the oldest
        self.lost = 0  # numbers that may have been given behind the newest
        self.passed = 0  # and in a sector that has been erased since
        self.found = 0  # what the mount that began again had counted as damaged
        self.erased = 0  # sectors that were lost with all that was in them
        self.unknown = False  # nobody can tell which numbers were given
        self.renumbered = False  # next_seq is not that of a record any more
        self.notes = 0  # NOTE records with the highest number
        self.damaged = []  # regions, (address, end), that are to become zeros
        self.aim(0)

    def aim(self, sector):
        """Reads that sector from now on."""
        j = self.j
        self.base = sector * j._size
        self.end = self.base + j._size
        self.forget()
        j._low = j._high = 0
        j._lock_crc(self.base)
        self.key = j._high << 16 | j._low  # what the CRC of a record at offset 0 is combined with

    def forget(self):
        """Nothing is in buf."""
        self.at = -len(self.buf)  # address of what is in buf: it ends before all that is asked for

    def load(self, at, n):
        """Returns the index in buf of n bytes from address `at` on. They fit, and are in the sector."""
        if at < self.at or at + n > self.at + len(self.buf):
            self.at = min(at, self.end - len(self.buf))
            self.j._read(self.at, self.buf)
        return at - self.at

    def last_byte(self, at):
        """Address of the last programmed byte at `at` or behind it, -1 if there is none. Looks from the end."""
        start = self.end
        while start > at:
            start = max(self.base, start - len(self.buf))
            self.load(start, len(self.buf))
            written = len(self.buf.rstrip(b"\xff"))
            if written:
                last = start + written - 1
                return last if last >= at else -1
        return -1

    def is_used(self):
        """True if something is behind the sector's header."""
        return self.last_byte(self.base + HEADER) >= 0

    def has_record(self, at):
        """True if a whole record is at address `at`. buf holds all of it then, if that is not longer."""
        # There are thousands of records: what load() would do in vain is not asked for. All in buf is of this sector.
        buf = self.buf
        i = at - self.at
        if not 0 <= i <= self.most:
            if at + OVERHEAD > self.end:
                return False
            i = self.load(at, OVERHEAD)
        if buf[i] not in _KINDS or buf[i + 8] == 0xFF:  # nor so many messages
            return False
        n = OVERHEAD + (buf[i + 1] | buf[i + 2] << 8)
        if at + n > self.end:
            return False
        if i + n > len(buf):
            if n > len(buf):
                return self.volatile or self._has_long(at, n)
            i = self.load(at, n)
        if self.volatile:
            return True
        n += i - 1 - _CRC
        # In this order most numbers that come up are small, and need no heap.
        return crc32(self.view[i:n]) ^ unpack_from("<I", buf, n)[0] ^ self.key == at - self.base

    def _has_long(self, at, n):
        # A record of n bytes is longer than buf.
        crc = k = 0
        n -= 1 + _CRC
        while k < n:
            part = min(n - k, len(self.buf))
            i = self.load(at + k, part)
            crc = crc32(self.view[i : i + part], crc)
            k += part
        return _word(self.buf, self.load(at + n, _CRC)) == crc ^ self.key ^ at - self.base

    def next_record(self, at, end):
        """The address of the first whole record from `at` on that begins before `end`, -1 if there is none."""
        while at < end:
            if self.has_record(at):
                return at
            at += 1
        return -1

    def count_records(self):
        """How many whole records are in the sector, and how many of them are live."""
        found = live = 0
        at = self.next_record(self.base + HEADER, self.end)
        while at >= 0:
            found += 1
            behind = at + self.size_in_header(at)
            note = self.buf[self.load(at, 1)] == NOTE
            live += not note and CLEARED[self.buf[self.load(behind - 1, 1)] & 15] < 2
            at = self.next_record(behind, self.end)
        return found, live

    def size_in_header(self, at):
        """The size of the record at address `at` if its header is right, whatever its body is; 0."""
        if at + OVERHEAD > self.end:
            return 0
        i = self.load(at, HEAD)
        size = OVERHEAD + (self.buf[i + 1] | self.buf[i + 2] << 8)
        right = crc32(self.view[i : i + HEAD - 1]) & 0xFF == self.buf[i + HEAD - 1]
        return size if right and at + size <= self.end else 0

    def count_lost(self, at, end):
        """How many records may have been in the region at the end of the ring, beside one that was cut short."""
        size = self.size_in_header(at)
        if not size:
            return _most_records(end - at)
        # The CRC is programmed last: where it is blank the record was never whole.
        return int(_word(self.buf, self.load(at + size - 1 - _CRC, _CRC)) != 0xFFFFFFFF)


def _word(buf, i):
    return unpack_from("<I", buf, i)[0]


# --- sectors ---


def _read_headers(j):
    # (sequence number, epoch and salt) of each sector whose header is right, None of the others.
    found = []
    h = bytearray(HEADER)
    geometry = _geometry(j)
    for i in range(j._n):
        j._read(i * j._size, h)
        _refuse_others(h)
        right = h[:3] == b"IFJ" and (j._volatile or crc32(memoryview(h)[:20]) == _word(h, 20))
        if right and h[:8] != geometry:
            raise ValueError("a journal of another geometry is here: not touched")
        seq = _word(h, 8)
        found.append((seq, bytes(h[12:20])) if right and seq < _NEVER and seq % j._n == i else None)
    return found


def _refuse_others(h):
    # The format before this one had a header of 16 bytes and their CRC.
    if h[:3] == b"IFJ" and h[3] != _VERSION and _word(h, 16) == crc32(memoryview(h)[:16]):
        raise ValueError("a journal of format %d is here: erase it with inflight.journal.erase(device)" % h[3])


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
            votes = sum(other == (_number(j, header[0], i), header[1]) for i, other in enumerate(headers))
            if votes > best or (votes == best and header[0] > newest):
                best = votes
                newest = header[0]
    return newest


def _restore_sectors(j, reader):
    # Finishes erases, or the format, and gives lost sectors a header again.
    headers = _read_headers(j)
    newest = _elect(j, headers)
    secrets = os.urandom(8) if newest < 0 else headers[newest % j._n][1]
    j._identity = _geometry(j) + secrets
    j.epoch = _word(secrets, 0)
    j._salt_low, j._salt_high = struct.unpack("<HH", secrets[4:])
    seq = newest + 1
    i = seq % j._n
    if newest >= 0 and not headers[i] and _is_newest(j, reader, i, seq):
        newest = seq
        if not reader.count_records()[0]:  # blank, or its erase or its header was cut short
            j._erase(i, seq)
            headers[i] = seq, secrets
    j.erases = newest + 1
    j._head = newest % j._n
    j._erased = 0
    for k in range(1, j._n + 1):
        i = (newest + k) % j._n
        seq = _number(j, newest, i)
        if headers[i] == (seq, secrets):
            continue
        # A right header with another number is that of another time: the sector was lost, never half erased.
        alike = not headers[i] and _likeness(j, i, seq) >= _ALIKE
        reader.aim(i)
        used = reader.is_used()
        if seq < 0 or (k == 1 and not headers[i] and not (alike and used) and (alike or _others_used(j, reader, i))):
            # An erase was cut short, or the header was damaged of a sector that was erased ahead.
            j._erase(i, j.erases)
            j._head = i
            j.erases += 1
        elif used or not alike:
            reader.aim(i)
            _read_headless(j, reader, seq, k, alike)


def _read_headless(j, reader, seq, k, alike):
    # The sector with the number `seq`, the k-th oldest, was in use, and its header is not right.
    found, live = reader.count_records()
    if not found and not alike:
        reader.erased += 1
        j.damaged += 2  # more than one record may have been in it
        j._erase(seq % j._n, seq)
        return
    if live or k > 1:  # else it may have been retired in part
        j.damaged += 1
    if not alike:
        reader.spoilt.append(seq % j._n)


def _most_records(size):
    # How many may have been in so many bytes, the last one without its state. Below 0: none, as behind a record whose
    # last bytes are FF.
    return max(size + 1, 0) // OVERHEAD


def _likeness(j, i, seq):
    # How many bytes of sector i's header are as the number `seq` wants them.
    h = bytearray(HEADER)
    j._read(i * j._size, h)
    right = j._identity[:8] + struct.pack("<I", seq & 0xFFFFFFFF) + j._identity[8:]
    right += struct.pack("<I", crc32(right))
    return sum(a == b for a, b in zip(h, right))


def _is_newest(j, reader, i, seq):
    # True if sector i, behind the newest one with a right header, has the number `seq` and a damaged header. Else it is
    # the oldest, or blank.
    reader.aim(i)
    return _likeness(j, i, seq) > max(_ALIKE - 1, _likeness(j, i, seq - j._n))


def _others_used(j, reader, i):
    # True if another sector than i is in use: so it is while one is erased.
    for k in range(1, j._n):
        reader.aim((i + k) % j._n)
        if reader.is_used():
            return True
    return False


def _find_head(j, reader):
    # The newest sector with something behind its header, the oldest if all are blank.
    newest = j._head
    while j._erased < j._n - 1:
        reader.aim(j._head)
        if reader.is_used():
            break
        j._erased += 1
        j._head = (newest - j._erased) % j._n


# --- records ---


def _read_sector(j, reader, sector):
    reader.aim(sector)
    at = reader.base + HEADER
    last = reader.last_byte(at)
    end = at  # of the last record
    while at <= last:
        if reader.has_record(at):
            at = end = _take(j, reader, at)
        elif not reader.buf[reader.load(at, 1)]:
            at += 1  # retired before
        else:
            behind = reader.next_record(at + 1, last)
            if behind < 0 and sector == j._head:
                break
            behind = last + 1 if behind < 0 else behind
            size = reader.size_in_header(at)
            if size and at + size < behind:
                behind = at + size
            j.damaged += 1
            _take_numbers(j, reader, at)
            if len(reader.damaged) < _MOST_REGIONS:
                reader.damaged.append((at, behind))
            else:
                _retire(j, reader, at, behind)
            at = behind
    if sector == j._head:
        if at <= last:
            _count_end(j, reader, at, last + 1)
            at = -(-(last + 1) // j._unit) * j._unit  # none of the page can be trusted
        if end < at:  # also what is zero already: the mount that retired it may have been cut short
            _retire(j, reader, end, at)
        j._off = at - reader.base


def _take_numbers(j, reader, at):
    # Of a damaged record. Those in its header were given if the header is right; else they may have been any.
    if not reader.size_in_header(at):
        reader.unknown = True
    elif _is_number_new(j, reader, at):
        j.last_mid, seq = unpack_from("<HI", reader.buf, reader.load(at, HEAD) + 3)
        j.next_seq = seq + 1
        reader.renumbered = True


def _is_number_new(j, reader, at):
    # True if the header at `at`, which is right, has a number that can have been given and is higher than all known.
    kind, _, _, seq = unpack_from("<BHHI", reader.buf, reader.load(at, HEAD))
    return (kind == OUT or kind == NOTE) and j.next_seq <= seq < _most_numbers(j)


def _most_numbers(j):
    # More can not have been given, by a ring with so many erases, nor since the numbers that are known. The last one
    # that a record can hold is 0xFEFFFFFF.
    ring = j._n * _most_records(j._size - HEADER)
    return min(max(j.erases * (ring // j._n), j.next_seq) + ring, _NEVER - 1)


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
    if done > 1 or 1 < released < 4:
        j._write_state(at, n - OVERHEAD, DONE if done > 1 else RELEASED)
    return behind


def _retire(j, reader, at, end):
    # The region becomes zeros: nothing in it is ever taken for a record, whatever its bits read like another time.
    zeros = bytes(CHUNK)
    while at < end:
        n = min(CHUNK, end - at)
        j._clear_bits(at, zeros, n)
        at += n
    j._sync()
    reader.forget()


def _count_end(j, reader, at, end):
    # Behind the last record of the head is one that was cut short, or damaged since: if so, its number and Message
    # ID were given.
    reader.lost = reader.count_lost(at, end)
    size = reader.size_in_header(at)
    if reader.lost and size:
        if _is_number_new(j, reader, at):
            reader.lost = _word(reader.buf, reader.load(at, HEAD) + 5) + 1 - j.next_seq
        reader.lost += _most_records(end - at - size)


# --- the end ---


def _finish(j, reader):
    if reader.last >= 0:
        _refresh(j, reader.last)
        _drop_original(j, reader)
    if j._bad // j._size == j._head and j._bad % j._size + j._unit > j._off:
        j._off = j._size  # that page takes nothing
    j._bad = -1
    j._cursor = j._oldest()
    _skip_numbers(j, reader)
    noted = not (j.skipped or reader.renumbered or reader.notes == 1) or (j._off + NOTES <= j._size and j._note())
    j._sync()
    for at, end in reader.damaged:  # behind the numbers that it made known, should the power go here
        _retire(j, reader, at, end)
    while not j._erased:
        try:
            j._collect()
        except OutboxFull:
            _rewrite_oldest(j)
    try:
        for sector in reader.spoilt:
            while j._live[sector]:
                if j._erased > 1 or j._off + j._live[sector] <= j._size:
                    j._empty(sector)
                else:
                    j._collect()
        if not noted:
            j._note()
    except OutboxFull:
        pass  # the next mount finds the same
    j._sync()
    j._ok = True


def _skip_numbers(j, reader):
    # Numbers and Message IDs that may have been given must not come again.
    lost = reader.lost + reader.passed
    if reader.unknown or reader.erased or (reader.damaged and j._newest < 0):
        j.skipped = max(_most_numbers(j) - j.next_seq, lost)
    else:
        j.skipped = lost
    j.next_seq += j.skipped
    if j.skipped:
        j.last_mid = (j.last_mid + j.skipped + _UNKEPT_IDS) % 65535


def _rewrite_oldest(j):
    # Damage has taken all space there was, so the oldest sector cannot be copied before it is erased: its live records
    # are in RAM meanwhile.
    sector = j._tail()
    kept = []
    at = j._next(j._oldest())
    while 0 <= at and at // j._size == sector:
        state = j._state(at)
        if state != DONE:
            body = bytearray(j.found_len)
            start = j.read(at, 0, body)
            kept.append((j._kind, j.found_mid, j.found_seq, body[start:], state))
            j._count(at, j._kind, -len(body) - OVERHEAD)
        at = j._next(j._behind(at))
    j._reclaim(sector)
    numbers = j.next_seq, j.last_mid
    for kind, mid, seq, body, state in kept:
        if j._off + len(body) + OVERHEAD > j._size:
            j._open_next()
        j.next_seq = seq
        at = j._append(kind, mid, body, len(body), None, 0, 0)
        j._count(at, kind, len(body) + OVERHEAD)
        if state:
            j._write_state(at, len(body), state)
    j._ordered = False
    j.next_seq, j.last_mid = numbers
    if j.next_seq:
        j._note()


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


def _drop_original(j, reader):
    # The last record may be a copy, made when power was cut before its original was marked done: that is the first
    # live one, in the oldest sector.
    at = reader.last
    other = reader.first
    if other < 0 or other == at or other // j._size != j._tail():
        return
    j._load(at)
    header = bytes(j._h)
    j._load(other)
    if bytes(j._h) != header:
        return
    state = j._state(other)
    if state:  # the last byte of the copy
        j._write_state(at, j.found_len, state)
        j._sync()
    j._write_state(other, j.found_len, DONE)
    j._count(other, j._kind, -j.found_len - OVERHEAD)
