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
#
# Nothing but the newest OUT record tells the next sequence number, so that one stays, even DONE,
# until a younger one stands: it is pinned.

import struct
from array import array
from errno import EIO

from .pages import Pages, log2
from .port import const, forget

OUT = const(1)  # kinds of records: these take a sequence number each,
IN = const(2)  # these do not
SESSION = const(3)

RELEASED = const(1)  # states, after live (0)
DONE = const(2)

NOTE = const(4)  # a kind of our own, never alive: takes a number, like OUT
HEADER = const(20)  # of a sector
HEAD = const(10)  # of a record
CRC = const(4)
_MOST = const(60000)  # live OUT records
_NO_HEADER = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"


class OutboxFull(Exception):
    """The journal has no room for another message; nothing was written."""


class Journal(Pages):
    """A ring of at least 3 erasable blocks of `device`; Pages tells what that is.

    Mounts what is there, formats what is blank. epoch: random, made when it was formatted.
    next_seq: sequence number of the next OUT record, never the same twice. last_mid: Message ID of
    the newest OUT record. live: OUT records not DONE. used, limit: live bytes, and how many may be
    OUT records. largest: the longest body. erases: of all sectors together, ever. damaged:
    records, or whole sectors, that this mount found spoilt. found_*: what
    find() and scan() found.

    Raises ValueError if the device holds a journal of another geometry or version. After an
    OSError of the device append() raises OSError until the journal is mounted anew."""

    def __init__(self, device):
        super().__init__(device)
        n = self._n
        size = self._size
        unit = self._unit
        once = self._once
        # Where records begin: behind a page for the mark of the next sector, if pages are for once.
        self._first = -(-HEADER // unit) * unit + unit if once else HEADER
        self._ends = 2 * unit if once else 1  # bytes of a record's mark
        self.largest = size - self._first - HEAD - CRC - self._ends
        if n < 3 or size % unit or size > 65536 or self.largest < unit:
            raise ValueError("journal: at least 3 sectors of several pages")
        self._identity = struct.pack("<3sBBBH", b"IFJ", 1, log2(unit) | once << 7, log2(size), n)
        self.limit = (n - 1) * (size - self._first) * 3 // 4
        self.owner = None  # its moved(old, new) hears of a record that has another place
        self._h = bytearray(HEAD)
        self._chunk = bytearray(32)  # what is copied on its way
        self._dirty = False  # something was programmed since the last sync
        self._live = array("H", bytes(2 * n))  # live bytes of each sector
        self.found_seq = self.found_mid = self.found_len = self.found_state = self._kind = 0
        import inflight.mount

        inflight.mount.mount(self)
        forget("mount")

    # --- places ---

    def _span(self, n):
        # Bytes that a record with a body of n bytes takes.
        n += HEAD + CRC
        if self._once:
            n = -(-n // self._unit) * self._unit
        return n + self._ends

    def _settle(self, at, n, state):
        # The mark of a record with a body of n bytes at place `at`.
        self._poke(self._mark_place(at, n, state), b"\x0f" if state == RELEASED else b"\xf0")

    def _mark_place(self, at, n, state):
        at += self._span(n) - self._ends
        return at + self._unit if self._once and state == DONE else at

    # --- records ---

    def append(self, kind, mid, head, n, tail=None, start=0):
        """Appends a record of `kind` with Message ID `mid` and the body head[:n] + tail[start:].
        It is durable when commit() returns. Returns its place.
        Raises OutboxFull (nothing is written), ValueError if the body is too long."""
        end = len(tail) if tail is not None else start
        size = n + end - start
        span = self._span(size)
        if size > self.largest:
            raise ValueError("%d bytes do not fit the journal, at most %d" % (size, self.largest))
        if not self._has_room(kind, span):
            raise OutboxFull("%d bytes of %d in use" % (self.used, self.limit))
        if not self._sound:
            raise OSError(EIO, "the flash failed: mount the journal again")
        self._sound = False
        while self._off + span > self._size:
            self._open_next()
        at = self._head * self._size + self._off
        self._seek(at)
        h = self._h
        struct.pack_into("<HHIB", h, 0, size, mid, self.next_seq, kind)
        self._low = self._high = 0xFFFF
        self._sum(h, 0, HEAD - 1)
        h[HEAD - 1] = ~self._low & 0xFF
        self._sum(h, HEAD - 1, HEAD)
        self._lay(h, 0, HEAD)
        self._put(head, 0, n)
        if tail is not None:
            self._put(tail, start, end)
        self._put_crc()
        self._program()
        self._dirty = True
        self._off += span
        self._count(at, kind, span)
        if kind == OUT or kind == NOTE:
            self.next_seq += 1
            self.last_mid = mid
            self._pin(at, 0)
        self._sound = True
        return at

    def _count(self, at, kind, span):
        # A record came alive (or died, when span is negative).
        self._live[at // self._size] += span
        self.used += span
        if kind == OUT:
            self.live += 1 if span > 0 else -1

    def _pin(self, at, span):
        # The newest OUT record is at `at`; `span` bytes of it are dead, but kept.
        if self._pinned:
            self._live[self._young // self._size] -= self._pinned
        self._young = at
        self._pinned = span
        if span:
            self._live[at // self._size] += span

    def mark(self, at, state):
        """Notes RELEASED or DONE on the live record at place `at`; a DONE one is gone. Durable when
        commit() returns."""
        self._load(at)
        n = self.found_len
        self._settle(at, n, state)
        self._dirty = True
        if state == DONE:
            self._bury(at, self._kind, self._span(n))

    @property
    def failed(self):
        """True after an operation that programs was interrupted or failed."""
        return not self._sound

    def commit(self):
        """Makes everything appended and marked durable. Raises OSError."""
        if self._dirty:
            self._sync()

    def _sync(self):
        super()._sync()
        self._dirty = False

    def _bury(self, at, kind, span):
        self._count(at, kind, -span)
        if at == self._young:
            self._pin(at, span)

    def read(self, at, offset, buf):
        """Fills buf with the body of the record at place `at`, from `offset` on (and what lies
        behind it). Returns where it begins in buf: not at 0 only at the end of the device."""
        at += HEAD + offset
        start = max(0, at + len(buf) - self._n * self._size)
        self._read(at - start, buf)
        return start

    def fits(self, kind, size):
        """True if append() would take a body of `size` bytes now."""
        return size <= self.largest and self._has_room(kind, self._span(size))

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

    def _load(self, at):
        # Reads the header of the record at `at`.
        self._read(at, self._h)
        self._take()

    def _take(self):
        h = self._h
        self.found_len = h[0] | h[1] << 8
        self.found_mid = h[2] | h[3] << 8
        self.found_seq = h[4] | h[5] << 8 | h[6] << 16 | h[7] << 24
        self._kind = h[8]

    def _parse(self, at):
        # The same. False if there is none, or a broken one: whose numbers would allocate.
        h = self._h
        self._read(at, h)
        if not 0 < h[8] <= NOTE or h[7] == 0xFF or at % self._size + self._span(h[0] | h[1] << 8) > self._size:
            return False
        self._low = self._high = 0xFFFF
        self._sum(h, 0, HEAD - 1)
        if ~self._low & 0xFF != h[HEAD - 1]:
            return False
        self._take()
        return True

    def _state(self, at):
        # Of the record just parsed.
        if self._kind == NOTE:
            return DONE
        at = self._mark_place(at, self.found_len, RELEASED)
        if self._once:
            return DONE if self._is_set(at + self._unit) else RELEASED if self._is_set(at) else 0
        self._read(at, self._mark)
        b = self._mark[0]
        return DONE if b & 0x0F != 0x0F else RELEASED if b != 0xFF else 0

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
            self._load(at)
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
        if seq < self._cursor_seq:
            self._cursor = self._oldest()
        best = self._search(kind, seq, self._cursor, self._ordered)
        if not self._ordered and (best < 0 or self.found_seq != seq):
            self._cursor = self._oldest()
            best = self._search(kind, seq, self._cursor, False)
        self._cursor_seq = seq
        if best >= 0:
            self._cursor = best
            self.found_state = self._state(best)
        return best

    def _search(self, kind, seq, start, ordered):
        # From place `start` on. Evacuated records stand behind younger ones, until those are done.
        best = -1
        lowest = last = 0
        rising = True
        at = self._next(start)
        while at >= 0:
            here = self.found_seq
            if self._kind == kind and (here >= seq or not ordered) and self._state(at) != DONE:
                if here == seq or ordered:
                    return at
                if here > seq and (best < 0 or here < lowest):
                    best = at
                    lowest = here
                rising = rising and here >= last
                last = here
            at = self._next(self._behind(at))
        if start == self._oldest():
            self._ordered = rising
        if best >= 0:
            self._load(best)
        return best

    # --- the ring ---

    def _retire(self, sector):
        # Before an erase, so that nobody believes a sector whose erase was cut short: its header
        # becomes zeros. Where that is forbidden its predecessor, the newest, bears the mark.
        if self._once:
            self._poke((sector - 1) % self._n * self._size + self._first - self._unit, b"")
        else:
            self._poke(sector * self._size, _NO_HEADER)
        self._sync()

    def _erase(self, sector, seq):
        self._dev.ioctl(6, sector)
        self._sync()
        self._live[sector] = 0
        self._seek(sector * self._size)
        self._low = self._high = 0xFFFF
        self._put(self._identity, 0, 8)
        struct.pack_into("<II", self._h, 0, seq, self.epoch)
        self._put(self._h, 0, 8)
        self._put_crc()
        self._program()
        self._sync()

    def _reclaim(self):
        sector = (self._head + self._clean + 1) % self._n
        if self._cursor // self._size == sector:
            self._cursor = (sector + 1) % self._n * self._size + self._first
        self._retire(sector)
        self._erase(sector, self.erases)
        self._clean += 1
        self.erases += 1

    def _open_next(self):
        if self._clean == 1 and not self._live[(self._head + 2) % self._n]:
            self._reclaim()
        self._head = (self._head + 1) % self._n
        self._clean -= 1
        self._off = self._first
        if not self._clean:
            self._evacuate((self._head + 1) % self._n)
            self._reclaim()

    def _evacuate(self, sector):
        # Copies the live records of the tail to the head, marks included.
        at = sector * self._size + self._first
        while self._live[sector]:
            at = self._next(at)
            if at // self._size != sector:
                break
            if self._state(at) != DONE or at == self._young:
                self._move(at)
            at = self._behind(at)
        self._sync()

    def _move(self, at):
        span = self._span(self.found_len)
        new = self._head * self._size + self._off
        state = self._state(at)
        self._copy(at, new, span - (self._ends if self._once else 0))
        if self._once and state and self._kind != NOTE:
            self._settle(new, self.found_len, state)
        self._off += span
        self._live[at // self._size] -= span
        self._live[new // self._size] += span
        if at == self._young:
            self._young = new
        if self._kind == OUT:
            self._ordered = False
        if self.owner:
            self.owner.moved(at, new)
        self._load(at)

    def _copy(self, at, new, span):
        chunk = self._chunk
        limit = (at // self._size + 1) * self._size
        self._seek(new)
        while span:
            start = max(0, at + len(chunk) - limit)
            self._read(at - start, chunk)
            n = min(span, len(chunk) - start)
            self._lay(chunk, start, start + n)
            at += n
            span -= n
        self._program()

    def tidy(self):
        """Idle work: erases a sector ahead if that costs no copying. Returns True if it did."""
        if self._clean > 1 or self._live[(self._head + 2) % self._n] or not self._sound:
            return False
        self._sound = False
        self._reclaim()
        self._sound = True
        return True


def erase(device):
    """Erases a journal for good, whatever is in it."""
    for i in range(device.ioctl(4, 0)):
        device.ioctl(6, i)
