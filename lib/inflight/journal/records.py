# What a record is on flash and how it is read; FORMAT.md tells each byte. Knows neither which records
# count nor where the next one goes.

from errno import EIO

from ..compat import const
from .pages import CRC_START, Pages

OUT = const(3)  # kinds of records, each of two bits at least: these take a sequence number each,
IN = const(5)  # these do not
SESSION = const(6)
NOTE = const(9)  # a kind of our own, never alive: the numbers up to its own have been given; what was lost ever

RELEASED = const(1)  # states, after live (0)
DONE = const(2)
ASIDE = const(4)  # of a live or released one, beside that: its owner has set it aside

HEADER = const(24)  # of a sector,
LOSSES = const(5)  # and where in it stands how often numbers were passed over for a loss
HEAD = const(10)  # of a record
OVERHEAD = const(15)  # of a record beside its body: HEAD, CRC-32 and state
NOTE_SIZE = const(9)  # bytes of its body: what was lost
AT_END = const(128)  # in the last byte of that: what is in front of the NOTEs may be a record cut short, not yet 00
NOTES = const(48)  # two NOTE records
CHECKPOINT = const(22)  # bytes of the body of another one; two more for each sector that it names
NEVER = const(0xFF000000)  # numbers of sectors and records stay below: no flash lasts so long
# How many bits of a nibble are 0. A state is a nibble, and counts as set if most of its bits are.
CLEARED = b"\x04\x03\x03\x02\x03\x02\x02\x01\x03\x02\x02\x01\x02\x01\x01\x00"
_MOST = const(3)


class Records(Pages):
    """Reads the records of a device; found_seq, found_mid, found_len and found_state tell of the last one."""

    # Of what journal.prepare() sets.
    _h: bytearray
    _part: bytearray
    _mark: bytearray
    _head: int
    _erased: int
    erases: int
    _salt_low: int
    _salt_high: int

    def _fail(self, text):
        # Nothing is programmed any more before a recovery.
        self.failed = True
        raise OSError(EIO, text)

    def _parse(self, at):
        # Reads the header of the record at `at`. Returns its kind; 0: found_len bytes to pass over; 255: none from here
        # on.
        h = self._h
        size = self._size
        self._dev.readblocks(at // size, h, at % size)  # as _read(): here calls are nested deepest
        kind = h[0]
        if not kind & kind - 1:  # one bit at most
            # And the zeros behind: a cut leaves up to a sector of them, and a read for each would take seconds.
            n = 1
            while n < HEAD and not h[n]:
                n += 1
            self.found_len = n
            return 0
        if kind == 0xFF:
            return kind
        self.found_len = h[1] | h[2] << 8
        if self._sum_header() != h[HEAD - 1] or at % size + self.found_len + OVERHEAD > size:
            self._fail("a record of the journal was damaged")
        self.found_mid = h[3] | h[4] << 8
        self.found_seq = h[5] | h[6] << 8 | h[7] << 16 | h[8] << 24
        self._kind = kind
        return kind

    def _sum_header(self):
        # The CRC begins with the header in _h. Returns the check of it, which is its last byte.
        crc = self._crc
        crc[0] = crc[1] = CRC_START
        self._sum(self._h, 0, HEAD - 1)
        return ~crc[0] & 0xFF

    def _load(self, at):
        # The same of a record that is there.
        if self._parse(at) % 0xFF == 0:
            self._fail("a record of the journal is gone")

    def _state(self, at):
        # Of the record at `at` that was just parsed.
        if self._kind == NOTE:
            return DONE
        self._read(at + self.found_len + OVERHEAD - 1, self._mark)
        b = self._mark[0]
        if CLEARED[b & 15] >= _MOST:
            return DONE
        released = CLEARED[b >> 4] >= _MOST
        return released if b & (8 if released else 0x80) else ASIDE | released

    def _write_state(self, at, n, state):
        # Of the record with a body of n bytes at `at`. That it is set aside is one bit, which a worn page may not take.
        self._seek(at + n + OVERHEAD - 1)
        self._buffer(b"\xff\x0f\xf0\xff\x7f\x07", state, state + 1)
        self._program(False, state < ASIDE)

    def _lock_crc(self, at):
        # Combines the CRC with what makes the record at `at` this one: a secret of this journal, the number of
        # the sector and the offset. An image of a record elsewhere, in a payload or of an earlier lap, has another.
        size = self._size
        age = (self._head + self._erased - at // size) % self._n
        self._crc[0] ^= self._salt_low ^ at % size
        self._crc[1] ^= self._salt_high ^ (self.erases - 1 - age) & 0xFFFF

    def _sum_record(self, at, copy):
        # The CRC of the record at `at`, just parsed, in parts that stay within its sector. With `copy` its bytes
        # are buffered too. Fails if it is not the one on flash.
        part = self._part
        start = at
        n = HEAD + self.found_len
        last = at - at % self._size + self._size - len(part)
        crc = self._crc
        crc[0] = crc[1] = CRC_START
        while n:
            i = max(0, at - last)
            self._read(at - i, part)
            end = min(len(part), i + n)
            self._sum(part, i, end)
            if copy:
                self._buffer(part, i, end)
            at += end - i
            n -= end - i
        if self._volatile:
            return
        four = self._four
        self._read(at, four)
        self._lock_crc(start)
        low = four[0] | four[1] << 8
        high = four[2] | four[3] << 8
        if low ^ 0xFFFF != crc[0] or high ^ 0xFFFF != crc[1]:
            self._fail("a record of the journal was damaged")
        self._lock_crc(start)
