# Reads the records of a sector that may be damaged: which are whole, and what the headers of the others tell. A
# mount needs it, and forgets it.

from binascii import crc32
from struct import unpack_from

from .records import CLEARED, HEAD, HEADER, IN, NOTE, OUT, OVERHEAD, SESSION

_CRC = 4
_KINDS = (OUT, IN, SESSION, NOTE)


def word(buf, i):
    return unpack_from("<I", buf, i)[0]


def most_records(size):
    """How many may have been in so many bytes, the last one without its state."""
    return (size + 1) // OVERHEAD


class SectorReader:
    # Reads a sector in large chunks, since each read costs an RP2040 a fraction of a millisecond; of at most 512
    # bytes, since a client needs the most heap here.

    def __init__(self, j):
        self.j = j
        self.buf = bytearray(min(j._size, 512))
        self.view = memoryview(self.buf)
        self.most = len(self.buf) - OVERHEAD  # index of the last record that could be in buf
        self.volatile = j._volatile
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
        return word(self.buf, self.load(at + n, _CRC)) == crc ^ self.key ^ at - self.base

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
            return most_records(end - at)
        # The CRC is programmed last: where it is blank the record was never whole.
        return int(word(self.buf, self.load(at + size - 1 - _CRC, _CRC)) != 0xFFFFFFFF)
