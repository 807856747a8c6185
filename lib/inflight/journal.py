# Durable records on a NOR-like block device: a ring of sectors, written once around, in which a
# record's end is noted by clearing bits. FORMAT.md tells what each byte is. Knows no MQTT.
#
# Theory of operation
# -------------------
# Records are appended to the head sector. When it is full the next sector is opened; one clean
# sector at least always lies ahead. The sector behind the clean ones is the tail, the oldest. To
# open the last clean sector the tail is emptied first: its live records are copied to the front
# of the fresh head, then it is retired (a mark), erased, and given a new header.
#
# So a mount finds, after power was cut at any instant, one of three things:
#   - a clean sector: all is well;
#   - a sector retired or without a valid header: its erase is finished, whatever was worth
#     keeping had been copied before;
#   - neither: the newest sector is an unfinished copy of what still stands in the tail. It is
#     erased. However often power is cut meanwhile, nothing but copies is lost.
# A record cut short has a wrong CRC and never counted; the log goes on behind it, in the next unit
# of programming, because nothing else can have been touched.

import os
import struct
from array import array
from binascii import crc32

from .port import const

OUT = const(1)  # kinds of records: these take a sequence number each,
IN = const(2)  # these do not
SESSION = const(3)

RELEASED = const(1)  # states, after live (0)
DONE = const(2)

_MAGIC = const(0x314A4649)  # "IFJ1"
_VERSION = const(1)
_HEADER = const(20)  # of a sector, without the mark
_HEAD = const(10)  # of a record
_CRC = const(4)
_MOST = const(60000)  # live OUT records

# CRC-32 (IEEE) by nibbles, in halves: a CRC is too big for a small int where those have 31 bits.
_LOW = array("H", b"\0\0d\x10\xc8 \xac0\x90A\xf4QXa<q \x83D\x93\xe8\xa3\x8c\xb3\xb0\xc2\xd4\xd2x\xe2\x1c\xf2")
_HIGH = array("H", b"\0\0\xb7\x1dn;\xd9&\xdcvkk\xb2M\5P\xb8\xed\x0f\xf0\xd6\xd6a\xcbd\x9b\xd3\x86\n\xa0\xbd\xbd")


class OutboxFull(Exception):
    """The journal has no room for another message; nothing was written."""


class Journal:
    """A ring of at least 3 erasable blocks of `device`, which has readblocks, writeblocks and ioctl
    of MicroPython's extended block protocol, and may tell `page` (bytes of one program, default
    256) and `once` (a page must not be programmed twice; default False).

    Mounts what is there, formats what is blank. epoch: random, made when it was formatted.
    next_seq: sequence number of the next OUT record, never the same twice. live: OUT records not
    DONE. used, limit: live bytes, and how many may be OUT records. largest: the longest body.
    erases: of all sectors together, ever. found_*: what find() and scan() found.

    Raises ValueError if the device holds a journal of another geometry or version."""

    def __init__(self, device):
        self._dev = device
        self._n = n = device.ioctl(4, 0)
        self._size = size = device.ioctl(5, 0)
        page = getattr(device, "page", 256)
        self._once = once = getattr(device, "once", False)
        # Where bits may be cleared later, small pages are programmed several at a time.
        self._unit = unit = page if once else max(page, 64)
        self._first = -(-_HEADER // unit) * unit + unit if once else _HEADER  # where records begin
        self._grain = 0x80 if once else 0
        while 1 << (self._grain & 0x7F) < unit:
            self._grain += 1
        self.largest = size - self._first - self._span(0) - (unit if once else 0)
        if n < 3 or size % unit or self.largest < unit:
            raise ValueError("journal: at least 3 sectors of several pages")
        self.limit = n * (size - self._first) * 3 // 4
        self.on_move = None  # called with the old and new place of a record
        self._page = bytearray(b"\xff" * unit)  # all FF but while it is being filled
        self._base = 0  # where it goes,
        self._k = self._from = 0  # how far it is filled, and from where on
        self._low = self._high = 0
        self._h = bytearray(_HEAD)
        self._one = bytearray(1)
        self._live = array("H", bytes(2 * n))  # live bytes of each sector
        self.found_seq = self.found_mid = self.found_len = self.found_state = self._kind = 0
        self._mount()

    # --- places and programs ---

    def _span(self, n):
        # Bytes that a record with a body of n bytes takes.
        if self._once:
            return -(-(_HEAD + n + _CRC) // self._unit) * self._unit + 2 * self._unit
        return _HEAD + n + _CRC + 1

    def _read(self, at, buf):
        self._dev.readblocks(at // self._size, buf, at % self._size)

    def _seek(self, at):
        self._k = self._from = at % self._unit
        self._base = at - self._k

    def _program(self):
        # Only the new bytes differ from FF, which leaves what is there alone.
        if self._k == self._from:
            return
        page = self._page
        self._dev.writeblocks(self._base // self._size, page, self._base % self._size)
        for i in range(self._from, self._k):
            page[i] = 0xFF
        self._seek(self._base + self._unit)

    def _put(self, data, i, end):
        # Appends data[i:end] and carries the CRC along.
        page = self._page
        unit = self._unit
        k = self._k
        low = self._low
        high = self._high
        low_of = _LOW
        high_of = _HIGH
        while i < end:
            b = data[i]
            i += 1
            page[k] = b
            k += 1
            x = (low ^ b) & 15
            low = (low >> 4 | (high & 15) << 12) ^ low_of[x]
            high = high >> 4 ^ high_of[x]
            x = (low ^ b >> 4) & 15
            low = (low >> 4 | (high & 15) << 12) ^ low_of[x]
            high = high >> 4 ^ high_of[x]
            if k == unit:
                self._k = k
                self._program()
                k = 0
        self._k = k
        self._low = low
        self._high = high

    def _poke(self, at, value, n=1):
        # n bytes that clear bits, or one page where that is forbidden.
        self._seek(at)
        for _ in range(self._unit if self._once else n):
            self._page[self._k] = value
            self._k += 1
        self._program()

    def _settle(self, at, n, state):
        # The mark of a record with a body of n bytes at place `at`.
        value = 0 if self._once else 0x0F if state == RELEASED else 0xF0
        self._poke(self._mark_place(at, n, state), value)

    def _mark_place(self, at, n, state):
        if not self._once:
            return at + _HEAD + n + _CRC
        return at + self._span(n) - (self._unit if state == DONE else 2 * self._unit)

    def _sync(self):
        self._dev.ioctl(3, 0)

    # --- records ---

    def append(self, kind, mid, head, n, tail=None, start=0):
        """Appends a record of `kind` with Message ID `mid` and the body head[:n] + tail[start:].
        It is durable when this returns. Returns its place.
        Raises OutboxFull (nothing is written), ValueError if the body is too long."""
        end = len(tail) if tail is not None else start
        size = n + end - start
        span = self._span(size)
        if size > self.largest:
            raise ValueError("%d bytes do not fit the journal, at most %d" % (size, self.largest))
        if not self._has_room(kind, span):
            raise OutboxFull("%d bytes of %d in use" % (self.used, self.limit))
        while self._off + span > self._size:
            self._open_next()
        at = self._head * self._size + self._off
        # Should a program fail, this sector is left behind.
        self._off = self._size
        h = self._h
        struct.pack_into("<HHIB", h, 0, size, mid, self.next_seq, kind)
        self._seek(at)
        self._low = self._high = 0xFFFF
        self._put(h, 0, _HEAD - 1)
        h[_HEAD - 1] = self._low & 0xFF
        self._put(h, _HEAD - 1, _HEAD)
        self._put(head, 0, n)
        if tail is not None:
            self._put(tail, start, end)
        struct.pack_into("<HH", h, 0, self._low ^ 0xFFFF, self._high ^ 0xFFFF)
        self._put(h, 0, _CRC)
        self._program()
        self._sync()
        self._off = at % self._size + span
        self._count(at, kind, span)
        if kind == OUT:
            self.next_seq += 1
            self.last_mid = mid
        return at

    def _count(self, at, kind, span):
        # A record came alive (or died, when span is negative).
        self._live[at // self._size] += span
        self.used += span
        if kind == OUT:
            self.live += 1 if span > 0 else -1

    def mark(self, at, state):
        """Notes RELEASED or DONE on the live record at place `at`; a DONE one is gone."""
        self._parse(at)
        n = self.found_len
        self._settle(at, n, state)
        if state == DONE:
            self._count(at, self._kind, -self._span(n))
        else:
            self._sync()

    def read(self, at, offset, buf):
        """Fills buf with the body of the record at place `at`, from `offset` on (and what lies
        behind it). Returns where it begins in buf: not at 0 only at the end of the device."""
        at += _HEAD + offset
        start = max(0, at + len(buf) - self._n * self._size)
        self._read(at - start, buf)
        return start

    def fits(self, kind, size):
        """True if append() would take a body of `size` bytes now."""
        return self._has_room(kind, self._span(size))

    def _has_room(self, kind, span):
        if kind == OUT and (self.used + span > self.limit or self.live >= _MOST):
            return False
        if self._off + span <= self._size or self._clean > 1:
            return True
        # Opening a sector copies what lives in the tail of that moment: is there one with room?
        room = self._size - self._first - span
        for i in range(2, self._n + 1):
            if self._live[(self._head + i) % self._n] <= room:
                return True
        return False

    # --- walking ---

    def _parse(self, at):
        # Reads the record header at `at`. False if there is none, or a broken one.
        h = self._h
        self._read(at, h)
        low = high = 0xFFFF
        for i in range(_HEAD - 1):
            b = h[i]
            x = (low ^ b) & 15
            low = (low >> 4 | (high & 15) << 12) ^ _LOW[x]
            high = high >> 4 ^ _HIGH[x]
            x = (low ^ b >> 4) & 15
            low = (low >> 4 | (high & 15) << 12) ^ _LOW[x]
            high = high >> 4 ^ _HIGH[x]
        n = h[0] | h[1] << 8
        if low & 0xFF != h[_HEAD - 1] or at % self._size + self._span(n) > self._size:
            return False
        self.found_len = n
        self.found_mid = h[2] | h[3] << 8
        self.found_seq = h[4] | h[5] << 8 | h[6] << 16 | h[7] << 24
        self._kind = h[8]
        return True

    def _state(self, at):
        one = self._one
        n = self.found_len
        self._read(self._mark_place(at, n, DONE), one)
        b = one[0]
        if not self._once:
            return DONE if b & 0x0F != 0x0F else RELEASED if b != 0xFF else 0
        if b != 0xFF:
            return DONE
        self._read(self._mark_place(at, n, RELEASED), one)
        return RELEASED if one[0] != 0xFF else 0

    def _next(self, at):
        # Returns the first record at `at` or behind it, in ring order up to the head's end; -1.
        size = self._size
        while True:
            sector = at // size
            off = at % size
            if sector == self._head and off >= self._off:
                return -1
            if off + self._span(0) <= size:
                if self._parse(at):
                    return at
                # A gap: records go on in a later unit, or in the next sector.
                at = (at // self._unit + 1) * self._unit
                if at // size == sector:
                    continue
            if sector == self._head:
                return -1
            at = (sector + 1) % self._n * size + self._first

    def _behind(self, at):
        # The place behind the record just parsed; a place of the same sector.
        at += self._span(self.found_len)
        return at if at % self._size else at - 1

    def _oldest(self):
        return (self._head + self._clean + 1) % self._n * self._size + self._first

    def scan(self, kind, at):
        """Returns the place of the next live record of `kind` behind place `at` (-1: of all), -1
        if there is none. Sets found_seq, found_mid, found_len, found_state."""
        if at < 0:
            at = self._next(self._oldest())
        else:
            self._parse(at)
            at = self._next(self._behind(at))
        while at >= 0:
            if self._kind == kind:
                self.found_state = self._state(at)
                if self.found_state != DONE:
                    return at
            at = self._next(self._behind(at))
        return -1

    def find(self, kind, seq):
        """Returns the place of the live record of `kind` with the lowest sequence number from
        `seq` on, -1 if there is none. Sets found_*. Quick when called with rising numbers."""
        ordered = self._ordered
        if not ordered or seq < self._cursor_seq:
            self._cursor = self._oldest()
        best = -1
        lowest = last = 0
        rising = True
        at = self._next(self._cursor)
        while at >= 0:
            here = self.found_seq
            if self._kind == kind and (here >= seq or not ordered) and self._state(at) != DONE:
                if here >= seq and (best < 0 or here < lowest):
                    best = at
                    lowest = here
                    if ordered:
                        break
                # Evacuated records stand behind younger ones, until those are done.
                rising = rising and here >= last
                last = here
            at = self._next(self._behind(at))
        self._ordered = rising
        if best >= 0:
            self._parse(best)
            self.found_state = self._state(best)
            self._cursor = best
            self._cursor_seq = seq
        return best

    # --- the ring ---

    def _retire(self, sector):
        # Before an erase, so that nobody believes a sector whose erase was cut short: the header
        # becomes zeros, or the page behind it where a page is programmed once.
        at = sector * self._size
        self._poke(at + self._first - self._unit if self._once else at, 0, _HEADER)
        self._sync()

    def _erase(self, sector, seq):
        self._dev.ioctl(6, sector)
        self._live[sector] = 0
        h = bytearray(_HEADER)
        struct.pack_into("<IBBHII", h, 0, _MAGIC, _VERSION, self._grain, self._n, seq, self.epoch)
        struct.pack_into("<I", h, 16, crc32(memoryview(h)[:16]))
        self._seek(sector * self._size)
        self._put(h, 0, _HEADER)
        self._program()
        self._sync()

    def _reclaim(self):
        sector = (self._head + self._clean + 1) % self._n
        if self._cursor // self._size == sector:
            self._cursor = (sector + 1) % self._n * self._size + self._first
        self._retire(sector)
        self._erase(sector, self._head_seq + self._clean + 1)
        self._clean += 1
        self.erases += 1

    def _open_next(self):
        if self._clean == 1 and not self._live[(self._head + 2) % self._n]:
            self._reclaim()
        self._head = (self._head + 1) % self._n
        self._head_seq += 1
        self._clean -= 1
        self._off = self._first
        if not self._clean:
            self._evacuate((self._head + 1) % self._n)
            self._reclaim()

    def _evacuate(self, sector):
        # Copies the live records of the tail to the head, marks included.
        limit = (sector + 1) * self._size
        chunk = bytearray(32)
        at = sector * self._size + self._first
        while self._live[sector]:
            at = self._next(at)
            if at // self._size != sector:
                break
            state = self._state(at)
            span = self._span(self.found_len)
            if state != DONE:
                new = self._head * self._size + self._off
                self._copy(at, new, span - (2 * self._unit if self._once else 0), chunk, limit)
                if self._once and state:
                    self._settle(new, self.found_len, state)
                self._off += span
                self._live[sector] -= span
                self._live[self._head] += span
                if self._kind == OUT:
                    self._ordered = False
                if self.on_move:
                    self.on_move(at, new)
                self._parse(at)
            at = self._behind(at)
        self._sync()

    def _copy(self, at, new, span, chunk, limit):
        self._seek(new)
        while span:
            start = max(0, at + len(chunk) - limit)
            self._read(at - start, chunk)
            n = min(span, len(chunk) - start)
            self._put(chunk, start, start + n)
            at += n
            span -= n
        self._program()

    def tidy(self):
        """Idle work: erases a sector ahead if that costs no copying. Returns True if it did."""
        if self._clean > 1 or self._live[(self._head + 2) % self._n]:
            return False
        self._reclaim()
        return True

    # --- mounting ---

    def _mount(self):
        n = self._n
        seqs = [self._sector_seq(i) for i in range(n)]
        newest = 0
        for i in range(n):
            if seqs[i] > seqs[newest]:
                newest = i
        formatted = seqs[newest] >= 0
        self.epoch = self._epoch_of(newest) if formatted else struct.unpack("<I", os.urandom(4))[0]
        self.next_seq = self.last_mid = self.used = self.live = 0
        self._cursor_seq = 0
        self._ordered = True
        if not formatted:
            newest = n - 1
            seqs[newest] = -1
        elif min(seqs) >= 0 and not self._is_blank(newest):
            tail = (newest + 1) % n
            if self._is_blank(tail):
                seqs[tail] = -1  # an erase that left only the header
            else:
                self._retire(newest)  # an unfinished copy of the tail
                self._erase(newest, seqs[newest])
        self._heal(seqs, newest, formatted)
        self._find_head(seqs)
        self._cursor = self._oldest()
        self._recover()

    def _sector_seq(self, sector):
        # The sequence number of a sector, -1 if it is retired or not one of ours.
        h = bytearray(self._first)
        self._read(sector * self._size, h)
        magic, version, grain, n, seq, _ = struct.unpack_from("<IBBHII", h)
        if magic != _MAGIC or (self._once and h[-self._unit :] != b"\xff" * self._unit):
            return -1
        if struct.unpack_from("<I", h, 16)[0] != crc32(memoryview(h)[:16]):
            return -1
        if version != _VERSION or grain != self._grain or n != self._n:
            raise ValueError("a journal of version %d with %d sectors is here: not touched" % (version, n))
        return seq

    def _epoch_of(self, sector):
        h = bytearray(4)
        self._read(sector * self._size + 12, h)
        return struct.unpack("<I", h)[0]

    def _is_blank(self, sector):
        return self._last_byte(sector, self._first) < 0

    def _last_byte(self, sector, off):
        # Offset of the last programmed byte of a sector from `off` on, -1 if there is none.
        chunk = bytearray(64)
        blank = bytes(b"\xff" * 64)
        last = -1
        while off < self._size:
            start = max(0, off + 64 - self._size)
            self._read(sector * self._size + off - start, chunk)
            if chunk != blank:
                for i in range(start, 64):
                    if chunk[i] != 0xFF:
                        last = off - start + i
            off += 64 - start
        return last

    def _heal(self, seqs, newest, formatted):
        # Gives every invalid sector a new header: its number is its predecessor's plus one.
        n = self._n
        expected = True
        for k in range(1, n + 1):
            i = (newest + k) % n
            if seqs[i] >= 0:
                expected = False
                continue
            seqs[i] = seqs[i - 1] + 1
            self._erase(i, seqs[i])
            if formatted and not expected:
                # Not the erase that power cut, but damage: numbers given there must not come again.
                self.next_seq += self._size // self._span(0)

    def _find_head(self, seqs):
        n = self._n
        newest = 0
        for i in range(n):
            if seqs[i] > seqs[newest]:
                newest = i
        self.erases = seqs[newest] + 1
        self._clean = 0
        while self._clean < n - 1 and self._is_blank((newest - self._clean) % n):
            self._clean += 1
        self._head = (newest - self._clean) % n
        self._head_seq = seqs[self._head]
        self._off = self._size

    def _recover(self):
        # Reads every record once; ends behind the last byte that was ever programmed.
        size = self._size
        seen = highest = 0
        youngest = last = -1
        end = self._first
        at = self._next(self._oldest())
        while at >= 0:
            seq = self.found_seq
            self._recover_record(at)
            if self._kind == OUT:
                self._ordered = self._ordered and (seq >= seen or self._state(at) == DONE)
                seen = max(seen, seq)
                if seq >= highest:
                    youngest = at
                    self.last_mid = self.found_mid
            highest = max(highest, seq)
            last = at
            if at // size == self._head:
                end = at % size + self._span(self.found_len)
            at = self._next(self._behind(at))
        if youngest >= 0 and self._parse(youngest) and self._intact(youngest):
            highest = max(highest, self.found_seq + 1)  # else it never was, and gave its number back
        self.next_seq += highest
        if last >= 0:
            self._refresh(last)
        trace = self._last_byte(self._head, end) if end < size else -1
        self._off = end if trace < 0 else min(size, (trace // self._unit + 1) * self._unit)

    def _recover_record(self, at):
        # Drops a record that was cut short, and finishes a mark that was.
        state = self._state(at)
        n = self.found_len
        if state != DONE and not self._intact(at):
            self._settle(at, n, DONE)
        else:
            if state and not self._once:
                self._settle(at, n, state)
            if state != DONE:
                self._count(at, self._kind, self._span(n))

    def _intact(self, at):
        n = _HEAD + self.found_len
        chunk = bytearray(64)
        view = memoryview(chunk)
        crc = 0
        end = self._n * self._size
        while n:
            start = max(0, at + 64 - end)
            self._read(at - start, chunk)
            k = min(n, 64 - start)
            crc = crc32(view[start : start + k], crc)
            at += k
            n -= k
        self._read(at, view[:_CRC])
        return struct.unpack_from("<I", chunk)[0] == crc

    def _refresh(self, at):
        # The power may have gone just as the last record was finished: its bits are set again.
        if self._once:
            return
        self._parse(at)
        end = at + self._span(self.found_len)
        at -= at % self._unit
        while at < end:
            self._seek(at)
            self._read(at, self._page)
            self._k = self._unit
            self._program()
            at += self._unit


def erase(device):
    """Erases a journal for good, whatever is in it."""
    for i in range(device.ioctl(4, 0)):
        device.ioctl(6, i)
