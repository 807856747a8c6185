# Durable records on a NOR-like block device: a ring of sectors, written once around, in which a
# record's end is noted by clearing bits. FORMAT.md tells what each byte is. Knows no MQTT.
#
# Theory of operation
# -------------------
# Records are appended to the head sector. When it is full the next erased sector becomes the head;
# one erased sector at least lies ahead. The sector behind the erased ones is the tail, the oldest.
# To collect it, each of its live records is copied to the head, then the original is marked done,
# one after the other; a sector without live records is retired (its header becomes zeros), erased,
# and given a new header. What is copied to the last erased sector is marked later, when all copies are
# there: if power cuts have left no space for the rest, that sector is erased and filled again.
#
# After a power cut at any instant a mount finds
#   - a record cut short: its CRC is wrong, it never counted. The region becomes zeros, which are
#     passed over, so no later mount can read anything else there;
#   - a copy whose original is not marked yet: the last record, and the first live one of the tail.
#     The original is marked;
#   - no erased sector, and a head with copies of some live records of the tail: the copies are given up, and the
#     head is erased if nothing but copies was there;
#   - none, and a head without live records, nor space for those of the tail: it is erased, and NOTEs tell the numbers
#     again; likewise if SESSION records alone live there, as soon as their owner writes another one;
#   - a sector retired, or without a header: its erase is finished.
# Damage looks different: a record whose CRC is wrong has other records behind it, and a sector
# whose header is spoilt has readable records. It costs that record, and is counted.
#
# Nothing but the newest OUT record tells the next sequence number: two NOTEs take its place before
# its sector is erased. NOTEs alone tell how much was ever lost, likewise. Damage is retired when NOTEs that count
# it are durable; they tell how much of it was still there, so that nothing counts twice if power is cut in between.
#
# How much may live: an append takes one sector at most and may erase two. The worst tail consists of sectors without a
# dead byte, which are copied for nothing; L sectors of live bytes are passed after L / 2 appends, each of which took a
# sector. So 1 + L / 2 sectors have to be kept erased, and L + 1 + L / 2 <= n - 1.

import struct
from array import array
from errno import EIO

from ..compat import const
from ..errors import OutboxFull
from .pages import CHUNK, CRC_START
from .records import (  # noqa: F401
    DONE,
    HEAD,
    HEADER,
    IN,
    NOTE,
    NOTE_SIZE,
    NOTES,
    OUT,
    OVERHEAD,
    RELEASED,
    SESSION,
    Records,
)

_MOST = const(60000)  # live OUT records
_ZEROS = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
_ERASES = const(2)  # in one append
_SHORT = const(65536)  # bytes of a ring that is always read as a whole
_ALL = const(0xFFFF)  # Journal._dirty, from where on nothing can wait
_DONE_WAITING = const(8)  # of a file, where a sync takes milliseconds


class Journal(Records):
    """A ring of at least 3 erasable blocks of `device`; Pages tells what that is.

    Mounts what is there, formats what is blank. epoch: random, made when it was formatted. next_seq: sequence number of
    the next OUT record, never the same twice. last_mid: Message ID of the newest OUT record. live: OUT records not
    DONE. used: bytes in use, in which a record longer than an eighth of a sector counts twice, since it may leave as
    much unused at a sector's end; limit: how many more than one OUT record may use; reserve: others. largest: the
    longest body. size: bytes of the device. erases: of all sectors together, ever. failed: an operation failed or was
    interrupted, and nothing is programmed before recover(). found_*: what find() and scan() found. watched: the address
    of a record, -1 once it is done or not known any more, as after recover(). waiting: so many OUT records that are
    done need not be durable before a packet leaves; see session. Since it was formatted, whatever happened to the
    power: damaged, records that were lost to damage; skipped, sequence numbers and Message IDs passed over, because
    records that had them may have been lost, or cut short. found_damaged, found_skipped: what mounts found since the
    owner set them to 0, there with sectors whose header alone was damaged; lost: of messages among these (Message ID,
    sequence number), of records that nobody knows None. Of a ring of more than 64 KiB alone: checkpoints, whose methods
    replace some of these; unread, so many sectors have not been read since the mount, and what is damaged there is not
    counted yet.

    Raises ValueError if the device holds a journal of another geometry or version."""

    def __init__(self, device):
        self._prepare(device)
        if self.failed:
            self.recover()

    def _prepare(self, device):
        prepare(self, device)

    def recover(self):
        """Mounts what is on the device, at the start and after a failure. The addresses of records are other
        ones afterwards; an OUT record that had not been committed is gone. Raises OSError, ValueError."""
        self.failed = True
        from .mount import recover

        recover(self)

    def _begin(self):
        # An operation that programs; `failed` is cleared again at its end. An interrupt may come between any two steps.
        if self.failed:
            raise OSError(EIO, "the journal failed: call recover()")
        self.failed = True

    # --- records ---

    def append(self, kind, mid, head, n, tail=b"", trailer=b"", start=0):
        """Appends a record of `kind` with Message ID `mid` and the body head[start:n] + tail + trailer, durable after
        commit(). Erases two sectors at most, a third one where records fill whole sectors. Returns its address.
        Raises OutboxFull (nothing is written), ValueError if the body is too long or head has no n bytes, OSError."""
        size = n - start + len(tail) + len(trailer)
        if n > len(head):  # machine code would go on behind it
            raise ValueError("n is %d, but head has %d bytes" % (n, len(head)))
        if size > self.largest:
            raise ValueError("%d bytes do not fit the journal, at most %d" % (size, self.largest))
        if not self.fits(kind, size) or (self._live[self._tail()] >= self._refused and kind != SESSION):
            text = "the journal is full, %d bytes in use, by messages %d at most: call drain(), or make it larger"
            raise OutboxFull(text % (self.used, self.limit))
        self._begin()
        self._dirty = _ALL
        if kind == OUT:
            self._begun = self.next_seq
        size += OVERHEAD
        if kind == SESSION and not (mid or self._erased):  # its second copy has one
            from .mount import begin_head_for_session

            begin_head_for_session(self, size)
        self._make_space(size, kind == SESSION)
        at = self._append(kind, mid, head, n, tail, trailer, start)
        self._count(at, kind, size)
        self.failed = False
        return at

    def _append(self, kind, mid, head, n, tail, trailer, start):
        # The head has space for it.
        at = self._head * self._size + self._off
        size = n - start + len(tail) + len(trailer)
        h = self._h
        self._appending = at
        self._seek(at)
        struct.pack_into("<BHHI", h, 0, kind, size, mid, self.next_seq - 1 if kind == NOTE else self.next_seq)
        h[HEAD - 1] = self._sum_header()
        self._sum(h, HEAD - 1, HEAD)
        self._buffer(h, 0, HEAD)
        self._put(head, start, n)
        if tail:
            self._put(tail, 0, len(tail))
        if trailer:
            self._put(trailer, 0, len(trailer))
        self._lock_crc(at)
        self._put_crc()
        self._program()
        self._appending = -1
        self._off += size + OVERHEAD
        if kind == OUT:
            self.next_seq += 1
            self.last_mid = mid
        if kind == OUT or kind == NOTE:
            self._newest = at
        return at

    def cost(self, n):
        """Returns how many bytes are in use for a record with a body of n bytes."""
        n += OVERHEAD
        return n if n * 8 <= self._size - HEADER else 2 * n

    def _count(self, at, kind, size):
        # A record came alive, or died, when size is negative.
        self._live[at // self._size] += size
        if size > 0:
            self.used += self.cost(size - OVERHEAD)
        else:
            self.used -= self.cost(-size - OVERHEAD)
        if kind == OUT:
            self.live += 1 if size > 0 else -1
        else:
            self._others += size

    def mark(self, at, state):
        """Notes RELEASED, DONE, ASIDE, or RELEASED | ASIDE of a released one, on the live record at `at`, durable
        after commit(); a DONE one is gone. Raises OSError."""
        self._begin()
        self._load(at)
        self._dirty = self._dirty + 1 if state == DONE and self._kind == OUT else _ALL
        self._write_state(at, self.found_len, state)
        if state == DONE:
            self._count(at, self._kind, -self.found_len - OVERHEAD)
            if at == self.watched:
                self.watched = -1
        self.failed = False

    def commit(self, waiting=0):
        """Makes durable what was appended and marked, unless that is nothing but `waiting` OUT records at most that are
        done. Raises OSError, also when the journal has failed."""
        if self._dirty > waiting or self.failed:
            self._begin()
            self._sync()
            self._dirty = 0
            self._begun = -1
            self.failed = False

    def read(self, at, offset, buf):
        """Fills buf with the body of the record at address `at`, from `offset` on (and what lies behind
        it). Returns where it begins in buf: not at 0 only at the end of the device."""
        at += HEAD + offset
        start = max(0, at + len(buf) - self._n * self._size)
        self._read(at - start, buf)
        return start

    def check(self, at):
        """Raises OSError if the record at address `at` was damaged; recover() drops and counts it."""
        self._load(at)
        self._sum_record(at, False)

    def fits(self, kind, size):
        """True if append() takes a body of `size` bytes now."""
        if size > self.largest:
            return False
        if kind == OUT:
            alone = not self.live and self.used <= self.reserve  # a message of any length fits
            return alone or (self.excess(size) <= 0 and self.live < _MOST)
        # Ids take no space of messages. Without its SESSION record nothing moves, and it replaces another one.
        return self._others + size + OVERHEAD <= self.reserve or kind == SESSION

    def excess(self, size):
        """Returns how many bytes have to become free before a message of `size` bytes fits; 0 or less: it does."""
        return self.used + self.cost(size) - min(self._others, self.reserve) - self.limit

    # --- walking ---

    def _next(self, at):
        # Returns the first record at `at` or behind it, in ring order up to the head's end; -1. Passes by sectors
        # without live records: a start would take seconds to read those.
        size = self._size
        while True:
            sector = at // size
            off = at - sector * size
            if sector == self._head and off >= self._off:
                return -1
            if off + OVERHEAD <= size and self._live[sector]:
                kind = self._parse(at)
                if not kind:
                    at += self.found_len
                    continue
                if kind != 0xFF:
                    return at
            if sector == self._head:
                return -1
            at = (sector + 1) % self._n * size + HEADER

    def _behind(self, at):
        # The address behind the record just parsed; one of the same sector.
        at += self.found_len + OVERHEAD
        return at if at % self._size else at - 1

    def _tail(self):
        return (self._head + self._erased + 1) % self._n

    def _oldest(self):
        return self._tail() * self._size + HEADER

    def scan(self, kind, at):
        """Returns the address of the next live record of `kind` behind address `at` (-1: of all), -1
        if there is none. Sets found_seq, found_mid, found_len, found_state. Raises OSError."""
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
        """Returns the address of the live record of `kind` with the lowest sequence number from
        `seq` on, -1 if there is none. Sets found_*. Quick when called with rising numbers. Raises OSError."""
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
        # From address `start` on. Copied records stand behind younger ones, until those are done.
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

    def next_used(self, mid):
        """Returns the first Message ID from `mid` on that a live OUT record has, 0 if there is none. Raises OSError."""
        used = 0
        distance = 65535
        at = self.scan(OUT, -1)
        while at >= 0:
            if (self.found_mid - mid) % 65535 < distance:
                used = self.found_mid
                distance = (used - mid) % 65535
            at = self.scan(OUT, at)
        return used

    # --- the ring ---

    def _make_space(self, size, first=False):
        # The head gets space for `size` bytes, and sectors stay erased ahead for the appends to come. `first`: no
        # message is completed without these bytes.
        erases = 0
        # As many as the worst case above asks for; 7 bytes in 8 are live in a sector that is full. Beside the head, the
        # oldest sector may be full of live records: to erase that one, too, would take as much as it gives.
        # One more where a page was found worn: its sector does not take all that a full one has.
        spare = 1 if self._worn < 0 else 2
        wanted = min(spare + 4 * (self.used + size) // (7 * (self._size - HEADER)), self._n - 2)
        while self._erased < self._n - 1:
            # Before the next sector is opened: what is copied fills the last one.
            opening = 1 if self._off + size > self._size else 0
            if self._erased >= wanted + opening or (self._erased > opening and erases >= _ERASES):
                break
            if first and (not opening or (self._erased and self._is_last_worn())):
                break
            self._collect()
            erases += 1
        if self._off + size > self._size:
            self._open_next(size)

    def _is_last_worn(self):
        # True if one sector at most is erased, and has a page that is worn: a copy of the oldest messages may not fit
        # there. What they need to be completed goes there first.
        worn = self._erased < 2 and self._worn == (self._head + 1) % self._n
        return worn and self._live[self._tail()] > self.reserve

    def _open_next(self, size):
        # For a record of `size` bytes.
        if not self._erased:
            # After power cuts within many collections: messages that the broker completes make space again.
            self.failed = False
            raise OutboxFull("the journal is full: no sector is erased")
        self._sync()  # of what is not durable a mount looks for no more than one sector
        self._head = (self._head + 1) % self._n
        self._erased -= 1
        self._off = HEADER

    def _collect(self):
        # Empties the oldest sector and erases it.
        sector = self._tail()
        live = self._empty(sector, self._erased or self._off + self._live[sector] <= self._size)
        noted = self._newest // self._size != sector and self._noted // self._size != sector
        if not noted and (self._erased or self._off + NOTES <= self._size):
            noted = self._note()
        if live >= 0:
            self._drop(live)
        self._sync()
        self._reclaim(sector)
        if not noted:  # damage has left no space at all before the erase
            self._note()

    def _note(self, regions=0):
        # The numbers, and what was lost, outlive their records. Nothing else may tell them, so there are two of this.
        # regions: so many damaged ones that are counted are about to be retired; with AT_END the one in front, too.
        if self._off + NOTES > self._size:
            self._open_next(NOTES)
        part = self._part
        struct.pack_into("<IIB", part, 0, self.damaged, self.skipped, regions)
        if self.damaged or self.skipped:
            self._noted = self._head * self._size + self._off
        for _ in range(2):
            self._append(NOTE, self.last_mid, part, NOTE_SIZE, b"", b"", 0)
            self._sync()  # without the first one the second one would stand behind damage
        return True

    def _empty(self, sector, later):
        # Copies its live records to the head, and marks them done; with `later`, not those that are copied to the last
        # erased sector, which takes all: _drop() does, from the address on that is returned (-1: there are none).
        first = -1
        at = sector * self._size + HEADER
        while self._live[sector]:
            at = self._next(at)
            if at // self._size != sector:
                self._fail("records of the journal are missing")
            if self._state(at) != DONE:
                self._move(at)
                if self._erased or not later:
                    self._write_state(at, self.found_len, DONE)
                    self._sync()
                elif first < 0:
                    first = at
            at = self._behind(at)
        return first

    def _drop(self, at):
        # The records from there to the end of the sector are done.
        end = at - at % self._size + self._size - OVERHEAD
        while at <= end:
            kind = self._parse(at)
            if kind == 0xFF:
                return
            if not kind:
                at += self.found_len
                continue
            if self._state(at) != DONE:
                self._write_state(at, self.found_len, DONE)
            at += self.found_len + OVERHEAD

    def _move(self, at):
        # Copies the live record just parsed to the head. The copy counts from now on.
        size = self.found_len + OVERHEAD
        state = self._state(at)
        if self._off + size > self._size:
            if not self._erased and self.owner and self.owner.can_spare(at):  # it goes, and nothing takes its place
                self._count(at, self._kind, -size)
                return
            self._open_next(size)
        new = self._head * self._size + self._off
        self._seek(new)
        self._sum_record(at, True)
        self._lock_crc(new)
        self._put_crc()
        if state:
            self._buffer(self._mark, 0, 1)
        self._program()
        self._sync()
        self._off += size
        self._count(at, self._kind, -size)
        self._count(new, self._kind, size)
        if at == self._newest:
            self._newest = new
        if at == self.watched:
            self.watched = new
        if self._kind == OUT:
            self._ordered = False
        if self.owner:
            self.owner.moved(at, new)

    def _reclaim(self, sector):
        if self._cursor // self._size == sector:
            self._cursor = (sector + 1) % self._n * self._size + HEADER
        # Retired before it is erased, so that nobody believes a sector whose erase was cut short.
        self._clear_bits(sector * self._size, _ZEROS, HEADER)
        self._sync()
        self._erase(sector, self.erases)
        self._erased += 1
        self.erases += 1
        self._refused = _ALL

    def _erase(self, sector, seq, header_only=False):
        if not header_only:
            self._dev.ioctl(6, sector)
            self._sync()
        self._live[sector] = 0
        self._seek(sector * self._size)
        self._crc[0] = self._crc[1] = CRC_START
        self._put(self._identity, 0, 8)
        struct.pack_into("<I", self._four, 0, seq)
        self._put(self._four, 0, 4)
        self._put(self._identity, 8, 16)
        self._put_crc()
        self._program()
        self._sync()

    def collect(self, idle=True):
        """The owner has time: erases a sector ahead if that costs no copying. Returns True if it did. Otherwise, if it
        is `idle`, one sector is read that the mount did not read. Raises OSError, also if that one was damaged:
        recover() counts it."""
        if self._erased > 1 or self._live[self._tail()]:
            return False
        self._begin()
        self._collect()
        self.failed = False
        return True


def erase(device):
    """Erases a journal for good, whatever is in it."""
    for i in range(device.ioctl(4, 0)):
        device.ioctl(6, i)


# --- what a journal knows before it is mounted ---


def prepare(j, device):
    """The fields of Pages, Records and Journal. Mounts a long ring, if it need not be read as a whole. Raises
    ValueError."""
    if not (hasattr(device, "readblocks") and hasattr(device, "ioctl")):
        from ..arguments import refuse

        refuse("device", "a block device with readblocks() and ioctl(), like RamFlash()", device)
    n = j._n = device.ioctl(4, 0)
    size = j._size = device.ioctl(5, 0)
    _prepare_pages(j, device)
    _prepare_records(j)
    space = size - HEADER
    # Of a ring of many sectors one more stays erased: then the oldest of a backlog can be given up without copying.
    # In RAM an append may erase as often as it likes.
    capacity = (n - (2 if n < 6 else 3)) * space * (21 if j._volatile else 14) // 24
    j.reserve = min(space // 2, 1024)  # bytes that are kept for records of other kinds than OUT
    j.limit = capacity - j.reserve
    j.largest = space - OVERHEAD
    j.size = n * size
    if n < 3 or size % j._unit or size > 65536 or size < 2 * j._unit or j.largest < 64:
        raise ValueError("journal: at least 3 sectors of several pages")
    # Its moved(old, new) hears of a record that has another address. If it has `queued`, how many messages wait, that
    # is corrected when a long ring has counted less than it told.
    j.owner = None
    j._live = array("H", bytes(2 * n))  # bytes of live records in each sector
    j.waiting = _DONE_WAITING if j._write and not j._volatile else 0
    j._dirty = 0  # what is not durable yet: so many OUT records that are done, or _ALL
    j._others = 0  # bytes of live records that are no OUT
    j._begun = -1  # number of the last OUT record until it is durable
    j._appending = -1  # address of the record that is being written
    if not j._volatile and size >= 512 and n < 65536 and getattr(device, "checkpoints", j.size > _SHORT):
        from .quick import mount_quickly

        mount_quickly(j)


def _prepare_pages(j, device):
    j._dev = device
    j._write = getattr(device, "program", None)
    j._volatile = getattr(device, "volatile", False)
    # Small pages are programmed several at a time.
    j._unit = max(getattr(device, "page", 256), CHUNK)
    j._page = bytearray(j._unit)  # see clear_page() of sectors
    j._chunk = bytearray(CHUNK)
    j._four = bytearray(4)
    j._crc = array("H", bytes(4))  # of what was put, in halves
    j._bad = -1  # address of the last page that did not take what was programmed
    j._worn = -1  # the sector in which a record was not taken last, also when it has been passed by
    j._refused = _ALL  # so many live bytes of the oldest sector a worn page has not let into the last erased one


def _prepare_records(j):
    j._h = bytearray(HEAD)
    j._part = bytearray(32)  # what is copied on its way
    j._mark = bytearray(1)
    j.found_seq = j.found_mid = j.found_len = j.found_state = j._kind = 0
    j._salt_low = j._salt_high = 0
    j.next_seq = 0
    j.found_damaged = j.found_skipped = 0
    j.lost = []
    # (lost to damage, passed over) before the last mount, since the format; then what it made zeros without a NOTE
    j._told = ()
    j._head = j._erased = j.erases = 0  # the sector written to, erased ones ahead, erases ever
    j.failed = True  # an operation failed or was interrupted: nothing is programmed before recover()
