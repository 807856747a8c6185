# The sectors of a ring, as a mount sees them: how it reads them, programs single pages of them, and makes damage zeros.

from array import array
from binascii import crc32
from struct import pack, pack_into, unpack, unpack_from

from ..compat import const
from .pages import CHUNK
from .records import CLEARED, HEAD, HEADER, IN, NOTE, OUT, OVERHEAD, SESSION

CRC = const(4)  # bytes of a record's CRC
RIGHT = const(0x2144DF1C)  # the CRC-32 of whatever goes on with its own, in little endian
_READS = const(6)  # of the same bytes,
_MORE_READS = const(16)  # and if they differed
_KINDS = (OUT, IN, SESSION, NOTE)
LEAST = const(512)  # bytes that a mount reads at a time


class SectorReader:
    """Reads a sector in chunks of at most `size` bytes: as a whole if there is heap for that, since each read costs an
    RP2040 a fraction of a millisecond. It knows what the parts of a mount tell each other."""

    def __init__(self, j, size):
        self.j = j
        size = min(j._size, size)
        self.again = bytearray(CHUNK if size == LEAST else size // 2)  # what is read once more
        self.buf = bytearray(size)
        self.view = memoryview(self.buf)
        self.volatile = j._volatile
        self.erased = 0  # sectors that were lost with all that was in them
        self.gone = 0  # damaged records in heads that were erased since
        self.given = 0  # numbers below it were given to records that were whole
        self.passed = 0  # numbers that may have been given in those
        self.unknown = False  # nobody can tell which numbers were given
        self.torn_last = False  # the last record was whole at the first read only, so all is read once more
        self.head_erased = False  # since it contained copies, not all of them
        self.told_of = ()  # addresses of NOTEs that tell of what is in front of them: it is no damage
        self.begin()

    def begin(self):
        """The ring is read from its beginning."""
        self.first = self.last_live = -1  # addresses of the first and the last live record,
        self.last = self.copied = -1  # of the last one that was taken, and of the last one whose number was not new
        # Where no sector is erased: addresses of the live records of the oldest sector and of the head, in it.
        self.originals = array("H")
        self.copies = array("H")
        self.closed = False  # the head has no right header: what were added might be taken for another sector's
        self.spoilt = []  # sectors that no live record may stay in, nor come to
        self.lost = 0  # numbers that may have been given behind the newest
        self.in_head = 0  # damaged records there
        self.renumbered = False  # next_seq is not that of a record any more
        self.notes = 0  # NOTE records with the highest number
        self.told = (0, 0, 0)  # what the last NOTE tells: lost ever, and regions that it counts and are not retired
        self.telling = ()  # addresses of the last NOTEs, if they tell of what is in front of them
        self.before = (-1, 0, 0)  # address of the last checkpoint; bytes in use, and live messages, in front of it
        self.headers = 0  # damaged headers of sectors whose records count
        self.regions = 0  # damaged ones that were found
        self.messages = []  # (Message ID, sequence number) of messages in them, None of what nobody knows
        self.damaged = []  # regions, (address, end), that are to become zeros,
        self.at_end = []  # and those that may be a record cut short: at the end of the head, or in front of NOTEs
        self.aim(0)

    def aim(self, sector):
        """Reads that sector from now on."""
        j = self.j
        self.base = sector * j._size
        self.end = self.base + j._size
        self.forget()
        crc = j._crc
        crc[0] = crc[1] = 0
        j._lock_crc(self.base)
        self.key = crc[1] << 16 | crc[0]  # what the CRC of a record at offset 0 is combined with

    def forget(self):
        """Nothing is in buf."""
        self.at = -len(self.buf)  # address of what is in buf: it ends before all that is asked for

    def load(self, at, n):
        """Returns the index in buf of n bytes from address `at` on. They fit, and are in the sector."""
        if at < self.at or at + n > self.at + len(self.buf):
            self._fill(min(at, self.end - len(self.buf)))
        return at - self.at

    def _fill(self, at, once=False):
        if once:
            self.forget()
            self.j._read(at, self.buf)
            return
        self.at = at
        # If reads differ, what was being programmed is finished here.
        if self.decide(at, self.buf):
            for k in range(0, len(self.buf), LEAST):  # a worn page is none of the others' business
                part = self.view[k : k + LEAST]
                self.has_programmed(self.j._clear_bits, at + k, part, len(part))

    def header(self, sector):
        """What decide() makes of the header of that sector."""
        h = bytearray(HEADER)
        self.decide(sector * self.j._size, h)
        return h

    def word(self, at):
        """The four bytes at address `at`, as a number."""
        return unpack_from("<I", self.buf, self.load(at, 4))[0]

    def last_byte(self, at, once=False):
        """Address of the last programmed byte at `at` or behind it, -1 if there is none. Looks from the end."""
        buf = self.buf
        view = self.view
        start = self.end
        while start > at:
            start = max(self.base, start - len(buf))
            self._fill(start, once)
            first = low = i = max(at - start, 0)
            high = len(buf)  # blank from there on, not from low - 1 on
            while low < high:
                # No look at each byte, and no copy.
                if buf[i] == 0xFF and view[i + 1 :] == view[i:-1]:
                    high = i
                else:
                    low = i + 1
                i = (low + high) // 2
            if high > first:
                return start + high - 1
        return -1

    def has_programmed(self, operation, *args):
        """Does what programs one page. Returns False if the page did not take all of it. Raises OSError."""
        try:
            operation(*args)
        except OSError:
            if not self.j._is_worn():
                raise
            self.j._bad = -1
            self.j._clear_page()
            return False
        return True

    def is_used(self, sector, once=False):
        """Aims at the sector. Returns True if something is behind its header; once: as it reads the first time."""
        self.aim(sector)
        return self.last_byte(self.base + HEADER, once) >= 0

    def has_records_or_damage(self):
        """True if the sector has more than bytes with a single bit that is 0, as a bit leaves that cannot be set."""
        for at in range(self.base + HEADER, self.end):
            b = ~self.buf[self.load(at, 1)] & 0xFF
            if b & b - 1:
                return True
        return False

    def has_record(self, at):
        """True if a whole record is at address `at`. buf holds all of it then, if that is not longer."""
        # There are thousands of records: what load() would do in vain is not asked for. All in buf is of this sector.
        buf = self.buf
        i = at - self.at
        if not 0 <= i <= len(buf) - OVERHEAD:
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
        n += i - 1 - CRC
        # In this order most numbers that come up are small, and need no heap.
        return crc32(self.view[i:n]) ^ unpack_from("<I", buf, n)[0] ^ self.key == at - self.base

    def pass_done(self, at, seq):
        """Passes messages that are done, as most records are, in a quarter of the time of a look at each: from address
        `at` on those that are whole in buf and have the numbers from `seq` on. Returns the address behind them."""
        buf = self.buf
        low, high = unpack("<HH", pack("<I", self.key))  # small numbers need no heap
        offset = self.at - self.base
        crc = bytearray(CRC)
        last = -1
        i = at - self.at
        while i <= len(buf) - OVERHEAD and buf[i] == OUT:
            n = i + HEAD + (buf[i + 1] | buf[i + 2] << 8)
            if n + CRC >= len(buf) or buf[n + CRC] & 15 or unpack_from("<I", buf, i + 5)[0] != seq:
                break
            first, second = unpack_from("<HH", buf, n)
            pack_into("<HH", crc, 0, first ^ low ^ offset + i, second ^ high)
            if crc32(crc, crc32(self.view[i:n])) != RIGHT:
                break
            last = i
            seq += 1
            i = n + CRC + 1
        if last >= 0:
            self.last = self.at + last
            self.renumbered = False
            self.notes = 0
        return self.at + i

    def _has_long(self, at, n):
        # A record of n bytes is longer than buf.
        crc = k = 0
        n -= 1 + CRC
        while k < n:
            part = min(n - k, len(self.buf))
            i = self.load(at + k, part)
            crc = crc32(self.view[i : i + part], crc)
            k += part
        return self.word(at + n) == crc ^ self.key ^ at - self.base

    def next_record(self, at, end):
        """The address of the first whole record from `at` on that begins before `end`, -1 if there is none."""
        while at < end:
            if self.has_record(at):
                return at
            at += 1
        return -1

    def records(self, sector):
        """Yields the address of each whole record of the sector, and whether it is live."""
        self.aim(sector)
        at = self.next_record(self.base + HEADER, self.end)
        while at >= 0:
            i = self.load(at, HEAD)
            note = self.buf[i] == NOTE
            behind = at + OVERHEAD + (self.buf[i + 1] | self.buf[i + 2] << 8)
            yield at, not note and CLEARED[self.buf[self.load(behind - 1, 1)] & 15] < 2
            at = self.next_record(behind, self.end)

    def count_records(self, sector):
        """How many whole records are in the sector, and how many of them are live."""
        found = live = 0
        for _, is_live in self.records(sector):
            found += 1
            live += is_live
        return found, live

    def is_live_message(self, at, size):
        """True if a live OUT record was at address `at`, whose header is right."""
        i = self.load(at + size - 1, 1)
        return CLEARED[self.buf[i] & 15] < 2 and self.buf[self.load(at, HEAD)] == OUT

    def decide(self, at, buf):
        """Reads buf from address `at`. Bits that were being changed when the power was cut may read differently each
        time: in buf they become 0. Returns True if there are any."""
        self.j._read(at, buf)
        if self.j._write or self._reads_same(at, buf):  # a file is trusted
            return False
        view = memoryview(buf)
        for k in range(0, len(buf), CHUNK):
            part = view[k : k + CHUNK]
            again = bytearray(len(part))
            for _ in range(_MORE_READS):
                self.j._read(at + k, again)
                for i, b in enumerate(again):
                    part[i] &= b
        return True

    def _reads_same(self, at, buf):
        # True if it reads as buf each time. (CRCs would need no other buffer, and take most of the time of a start.)
        step = min(len(buf), len(self.again))
        again = memoryview(self.again)[:step]
        view = memoryview(buf)
        for k in range(0, len(buf), step):
            part = view[k : k + step]
            for _ in range(_READS - 1):
                self.j._read(at + k, again)
                if again != part:
                    return False
        return True

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
        return int(self.word(at + size - 1 - CRC) != 0xFFFFFFFF)

    def set_state(self, at, n, state):
        """Sets that of the record with a body of n bytes at `at`: it is set if most of its bits can be cleared."""
        if not self.has_programmed(self.j._write_state, at, n, state):
            self.j._load(at)
            if self.j._state(at) != state:
                self.j._fail("a record of the journal does not take its state")

    def make_firm(self, at):
        """The power may have gone just as the record at `at`, the last one, was finished: what is read is programmed
        again. Returns False if that was no whole record."""
        i = self.load(at, HEAD)
        n = HEAD + CRC + (self.buf[i + 1] | self.buf[i + 2] << 8)
        crc = k = 0
        while k < n:
            part = min(n - k, len(self.buf))
            if 0 < n - k - part < CRC:
                part -= CRC  # which is read in one piece
            i = self.load(at + k, part)
            self.j._clear_bits(at + k, self.view[i : i + part], part)
            k += part
            crc = crc32(self.view[i : i + part - (CRC if k == n else 0)], crc)
        return self.volatile or unpack_from("<I", self.buf, i + part - CRC)[0] == crc ^ self.key ^ at - self.base

    def retire(self, at, end):
        """The region becomes zeros: nothing in it is ever taken for a record, whatever its bits read like another time.
        Returns False if that fails for more than single bits: no live record may stand before or behind those."""
        zeros = bytes(CHUNK)
        whole = True
        while at < end:
            n = min(CHUNK - at % CHUNK, end - at)
            if not self.has_programmed(self.j._clear_bits, at, zeros, n):
                self.aim(at // self.j._size)
                i = self.load(at, n)
                if not all(map(is_nothing, self.view[i : i + n])):
                    whole = False
                    self.spoilt.append(at // self.j._size)
            at += n
        self.j._sync()
        self.forget()
        return whole


def is_nothing(byte):
    """It has one bit at most, and is passed over: each kind has two."""
    return not byte & byte - 1


def most_records(size):
    # How many may have been in so many bytes, the last one without its state. Below 0: none, as behind a record whose
    # last bytes are FF.
    return max(size + 1, 0) // OVERHEAD
