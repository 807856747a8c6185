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

import os
import struct
from array import array
from binascii import crc32
from errno import EIO
from struct import unpack_from

from ..compat import const
from ..errors import OutboxFull
from .checkpoint import IN_ORDER, Checkpoints
from .pages import CHUNK, CRC_START
from .records import (
    AT_END,
    CHECKPOINT,
    CLEARED,
    DONE,
    HEAD,
    HEADER,
    IN,
    LOSSES,
    NEVER,
    NOTE,
    NOTE_SIZE,
    NOTES,
    OUT,
    OVERHEAD,
    RELEASED,
    SESSION,
    Records,
)
from .sectors import LEAST, RIGHT, SectorReader, is_nothing, most_records

_MOST = const(60000)  # live OUT records
_ZEROS = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
_ERASES = const(2)  # in one append
_SHORT = const(65536)  # bytes of a ring that is always read as a whole
_ALL = const(0xFFFF)  # Journal._dirty, from where on nothing can wait
_DONE_WAITING = const(8)  # of a file, where a sync takes milliseconds
_MOST_REGIONS = const(100)  # that are remembered
_UNKEPT_IDS = const(256)  # Message IDs that requests may have taken in between, of which there is no record
_MOST_BAD = const(4)  # headers at the beginning of the device that are not right
_MOST_BACK = const(8)  # sectors that are searched for a checkpoint
_START = const(16)  # bytes behind a sector's header: some are not FF if it is in use
_FEW = const(4)  # so many sectors are not worth leaving out
_LEFT = const(1 << 24)  # numbers that damage does not use up
_VERSION = const(2)
_ALIKE = const(12)  # bytes of a damaged header, of 24, that are as they ought to be; a retired or erased one has fewer


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

    _told: tuple

    def __init__(self, device):
        self._prepare_all(device)
        if self.failed:
            self.recover()

    def recover(self):
        """Mounts what is on the device, at the start and after a failure. The addresses of records are other
        ones afterwards; an OUT record that had not been committed is gone. Raises OSError, ValueError."""
        self.failed = True
        self._mount_again()

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
            raise OutboxFull(
                "the journal is full, %d bytes in use, by messages %d at most: call drain(), or make it larger"
                % (self.used, self.limit)
            )
        self._begin()
        self._dirty = _ALL
        if kind == OUT:
            self._begun = self.next_seq
        size += OVERHEAD
        if kind == SESSION and not (mid or self._erased):  # its second copy has one
            self._begin_head_for_session(size)
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
        later = self._erased or self._off + self._live[sector] <= self._size
        if not (later or self._others):
            self._open_next(0)  # which refuses: the SESSION record has to find space, or nothing is completed
        live = self._empty(sector, later)
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

    # --- what a journal knows before it is mounted ---

    def _prepare_all(self, device):
        """The fields of Pages, Records and Journal. Mounts a long ring, if it need not be read as a whole. Raises
        ValueError."""
        if not (hasattr(device, "readblocks") and hasattr(device, "ioctl")):
            from ..arguments import refuse

            refuse("device", "a block device with readblocks() and ioctl(), like RamFlash()", device)
        n = self._n = device.ioctl(4, 0)
        size = self._size = device.ioctl(5, 0)
        self._prepare_pages(device)
        self._prepare_records()
        space = size - HEADER
        # Of a ring of many sectors one more stays erased: then the oldest of a backlog can be given up without copying.
        # In RAM an append may erase as often as it likes.
        capacity = (n - (2 if n < 6 else 3)) * space * (21 if self._volatile else 14) // 24
        self.reserve = min(space // 2, 1024)  # bytes that are kept for records of other kinds than OUT
        self.limit = capacity - self.reserve
        self.largest = space - OVERHEAD
        self.size = n * size
        if n < 3 or size % self._unit or size > 65536 or size < 2 * self._unit or self.largest < 64:
            raise ValueError("journal: at least 3 sectors of several pages")
        # Its moved(old, new) hears of a record that has another address. If it has `queued`, how many messages wait,
        # that is corrected when a long ring has counted less than it told.
        self.owner = None
        self._live = array("H", bytes(2 * n))  # bytes of live records in each sector
        self.waiting = _DONE_WAITING if self._write and not self._volatile else 0
        self._dirty = 0  # what is not durable yet: so many OUT records that are done, or _ALL
        self._others = 0  # bytes of live records that are no OUT
        self._begun = -1  # number of the last OUT record until it is durable
        self._appending = -1  # address of the record that is being written
        if not self._volatile and size >= 512 and n < 65536 and getattr(device, "checkpoints", self.size > _SHORT):
            self._mount_quickly()

    def _prepare_pages(self, device):
        self._dev = device
        self._write = getattr(device, "program", None)
        self._volatile = getattr(device, "volatile", False)
        # Small pages are programmed several at a time.
        self._unit = max(getattr(device, "page", 256), CHUNK)
        self._page = bytearray(self._unit)  # see _clear_page()
        self._chunk = bytearray(CHUNK)
        self._four = bytearray(4)
        self._crc = array("H", bytes(4))  # of what was put, in halves
        self._bad = -1  # address of the last page that did not take what was programmed
        self._worn = -1  # the sector in which a record was not taken last, also when it has been passed by
        self._refused = _ALL  # so many live bytes of the oldest sector a worn page has not let into the last erased one

    def _prepare_records(self):
        self._h = bytearray(HEAD)
        self._part = bytearray(32)  # what is copied on its way
        self._mark = bytearray(1)
        self.found_seq = self.found_mid = self.found_len = self.found_state = self._kind = 0
        self._salt_low = self._salt_high = 0
        self.next_seq = 0
        self.found_damaged = self.found_skipped = 0
        self.lost = []
        # (lost to damage, passed over) before the last mount, since the format; then what it made zeros without a NOTE
        self._told = ()
        self._head = self._erased = self.erases = 0  # the sector written to, erased ones ahead, erases ever
        self.failed = True  # an operation failed or was interrupted: nothing is programmed before recover()

    # --- the mount ---

    def _mount_again(self):
        # What a power cut interrupted is finished, every record read once, damage retired.
        given = self._begun if self._begun >= 0 else self.next_seq
        live = self.live if given else 0
        if self._volatile and self._appending >= 0:
            # Records in RAM have no CRC that tells a whole one from one whose append() was interrupted.
            n = self._size - self._appending % self._size
            self._write(self._appending, b"\xff" * n, 0, n)
        self._appending = -1
        try:
            self._mount(given)
        except BaseException:
            self.next_seq = given
            self.live = live  # so many are pending, as far as is known
            raise
        if hasattr(self, "checkpoints"):
            self.checkpoints.ready = True
        self._dirty = 0
        # Whoever appended it was not told that it is there, and does so again: it must not come back after a power cut.
        at = self.find(OUT, self._begun) if self._begun >= 0 else -1
        if at >= 0 and self.found_seq == self._begun:
            self.mark(at, DONE)
            self.commit()
        self._begun = -1

    def _mount(self, given=0):
        """Mounts what is on the device. OUT records with a sequence number below `given` were whole there."""
        size = LEAST if given else self._size  # bytes that are read at a time: at a start there is heap
        for left in range(self._n + self._size // self._unit, 0, -1):
            try:
                return self._try_mount(given, size)
            except MemoryError:
                if size == LEAST:
                    raise
                size = LEAST
            except OSError:
                # What went to a worn page is a record that was cut short: the next try passes it by.
                if left == 1 or not self._is_worn():
                    raise

    def _try_mount(self, given, size):
        reader = SectorReader(self, size)
        reader.given = given
        whole = False
        while not whole:
            self._clear(reader)
            self._restore_sectors(reader)
            whole = self._read_sectors(reader) and self._settle(reader)
        self._finish(reader)

    def _clear(self, reader):
        """Nothing is known of what is on the device."""
        reader.begin()
        self._clear_page()
        self.next_seq = self.last_mid = self.used = self.live = self._others = 0
        self.damaged = 2 * reader.erased + reader.gone
        self.skipped = 0
        self._cursor = self._cursor_seq = 0
        self._newest = self._noted = self.watched = -1
        self._ordered = True
        for i in range(self._n):
            self._live[i] = 0
        if hasattr(self, "checkpoints"):
            self.checkpoints.begin()

    def _clear_page(self):
        """The page is all FF but while it is being filled."""
        for i in range(0, self._unit, 16):
            struct.pack_into("16s", self._page, i, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
        self._base = self._k = self._from = 0  # where it goes, how far it is filled, and from where on

    def _is_worn(self):
        """True if the last program failed since its page did not take all of it."""
        return self._bad == self._base

    # --- what is in the sectors ---
    # Every record is read once. Then copies that a power cut left beside their originals: both are live, and one of
    # them is given up. A copy is the last record, its original in the oldest sector, which is another one.

    def _read_sectors(self, reader):
        """Reads the sectors in use, the oldest first. Returns False if all is to be read again."""
        unknown = reader.unknown
        for k in range(self._erased + 1, self._n):
            self._read_sector(reader, (self._head + k) % self._n)
        damaged = self.damaged
        self._read_sector(reader, self._head)
        reader.in_head = self.damaged - damaged
        if reader.telling and not reader.told_of:
            # What is in front of these NOTEs was no damage when they were written, and is none now.
            reader.told_of = reader.telling
            reader.unknown = unknown
            return False
        if self._write or reader.last < 0:
            return True
        reader.aim(reader.last // self._size)
        whole = reader.make_firm(reader.last) or reader.torn_last
        reader.torn_last = not whole
        return whole

    def _read_sector(self, reader, sector):
        """Counts its records; finds the end of those of the head."""
        reader.aim(sector)
        at = reader.base + HEADER
        last = reader.last_byte(at)
        end = at  # of the last record
        while at <= last:
            if reader.has_record(at):
                behind = self._take_record(reader, at)
                at = end = reader.pass_done(behind, self.next_seq)
                if at > behind:
                    i = reader.load(reader.last, HEAD)
                    self.last_mid, self.next_seq = unpack_from("<HI", reader.buf, i + 3)
                    self.next_seq += 1
                    self._newest = reader.last
            elif is_nothing(reader.buf[reader.load(at, 1)]):
                at += 1  # retired before
            else:
                behind = reader.next_record(at + 1, last)
                if behind < 0 and sector == self._head:
                    break
                if behind in reader.told_of:
                    reader.at_end.append((at, behind))
                    at = behind
                    continue
                behind = last + 1 if behind < 0 else behind
                size = reader.size_in_header(at)
                if size and at + size < behind:
                    behind = at + size
                self._count_damaged(reader, at, size)
                if len(reader.damaged) < _MOST_REGIONS:
                    reader.damaged.append((at, behind))
                else:
                    reader.retire(at, behind)
                at = behind
        if sector == self._head:
            damaged = self.damaged
            begin = at
            if at <= last:
                self._count_end(reader, at, last + 1)
                # None of the page can be trusted, nor of the next one if the record goes on there: its program may have
                # begun, and read as blank this time: not behind a page that did not take all of it.
                behind = max(last + 1, at + (reader.size_in_header(at) or HEAD))
                if last - last % self._unit <= self._bad < behind:
                    behind = self._bad + 1
                at = min(-(-behind // self._unit) * self._unit, reader.end)
            self._off = at - reader.base
            if reader.lost or self.damaged > damaged:
                # Behind the numbers that it made known, should the power go here: NOTEs go behind it first.
                left = begin + reader.size_in_header(begin)
                if left > begin and not reader.retire(left, at):
                    self._off = self._size
                (reader.damaged if self.damaged > damaged else reader.at_end).append((end, at))
            # Also what is zero already is retired: the mount that did so may have been cut short.
            elif end < at and not reader.retire(end, at):
                self._off = self._size

    def _count_damaged(self, reader, at, size):
        # A record of that size if its header is right (else 0). Its numbers were given then; else they may have been
        # any.
        self.damaged += 1
        reader.regions += 1
        if size and reader.is_live_message(at, size):
            reader.messages.append(unpack_from("<HI", reader.buf, reader.load(at, HEAD) + 3))
        if not size:
            reader.messages.append(None)
            reader.unknown = True
        elif self._is_number_new(reader, at):
            self.last_mid, seq = unpack_from("<HI", reader.buf, reader.load(at, HEAD) + 3)
            self.next_seq = seq + 1
            reader.renumbered = True

    def _is_number_new(self, reader, at):
        # True if the header at `at`, which is right, has a number that can have been given and is higher than all
        # known.
        kind, _, _, seq = unpack_from("<BHHI", reader.buf, reader.load(at, HEAD))
        return (kind == OUT or kind == NOTE) and self.next_seq <= seq < self._most_numbers()

    def _take_record(self, reader, at):
        # Counts the record, finishes a state that was half written. Returns the address behind it.
        buf = reader.buf
        i = reader.load(at, OVERHEAD)
        kind = buf[i]
        n = OVERHEAD + (buf[i + 1] | buf[i + 2] << 8)
        behind = at + n
        reader.last = at
        if kind == NOTE or kind == OUT:
            seq = unpack_from("<I", buf, i + 5)[0]
            if n >= OVERHEAD + CHECKPOINT and kind == NOTE:
                reader.before = at, self.used, self.live
                if seq < self.next_seq:
                    return behind  # other records tell the number
            if kind == OUT and seq < self.next_seq:
                reader.copied = at
            if seq + 1 >= self.next_seq:
                self.next_seq = seq + 1
                self.last_mid = buf[i + 3] | buf[i + 4] << 8
                self._newest = at
                reader.renumbered = False
                reader.notes = reader.notes + 1 if kind == NOTE else 0
            else:
                self._ordered = False
            if kind == NOTE:
                if n == OVERHEAD + NOTE_SIZE:
                    reader.told = unpack_from("<IIB", buf, reader.load(at, n) + HEAD)
                    self._noted = at
                    reader.telling = reader.telling + (at,) if reader.told[2] & AT_END else ()
                return behind
        i += n - 1
        if i >= len(buf):
            i = reader.load(behind - 1, 1)
        state = buf[i]
        if not state & 15:
            return behind  # done, as most are
        released = CLEARED[state >> 4]
        done = CLEARED[state & 15] > (2 if released > 2 else 1)
        if not done:
            self._count(at, kind, n)
            if reader.first < 0:
                reader.first = at
            reader.last_live = at
            if not self._erased:
                self._note_place(reader, at)
        if done or released == 3:
            reader.set_state(at, n - OVERHEAD, DONE if done else RELEASED)
        return behind

    def _note_place(self, reader, at):
        sector = at // self._size
        if sector == self._tail():
            reader.originals.append(at % self._size)
        elif sector == self._head:
            reader.copies.append(at % self._size)

    def _count_end(self, reader, at, end):
        # Behind the last record of the head is one that was cut short, or damaged since: if so, its number and Message
        # ID were given.
        size = reader.size_in_header(at)
        if size and self._is_number_new(reader, at) and reader.word(at + 5) < reader.given:
            # It was whole before this mount, which is no start: damaged for sure. (A lower number: that of a copy.)
            self._count_damaged(reader, at, size)
            reader.lost = most_records(end - at - size)
            return
        reader.lost = reader.count_lost(at, end)
        if (
            reader.lost
            and not size
            and self._newest // self._size != self._head
            and self._erased == self._n - 1
            and self.erases > self._n
        ):
            reader.unknown = True  # this record alone told the newest number
        if reader.lost and size:
            if self._is_number_new(reader, at):
                reader.lost = reader.word(at + 5) + 1 - self.next_seq
            reader.lost += most_records(end - at - size)

    def _settle(self, reader):
        """Originals of which there are copies become done. Only if the last erased sector takes all of them, though:
        else the copies become done instead, nothing lives in the head then, and it is erased, or begun again where
        NOTEs are. No other sector is erased in that case, so nothing but copies and NOTEs went there. Returns False if
        the head was erased: all is to be read again."""
        sector, copies, originals = self._find_copies(reader)
        unfinished = not self._erased and self._is_head_unfinished(reader, copies, originals)
        for copy, original in self._pairs(sector, copies, originals):
            if unfinished:
                self._drop_copied(reader, copy)
            else:
                self._drop_copied(reader, original, copy)
        if not unfinished or self._is_noted(originals):
            return True
        # An erase that is cut short may leave its header half retired. No record cut short is behind that one then.
        for at, end in reader.at_end:
            reader.retire(at, end)
        reader.at_end = []
        reader.gone += reader.in_head
        if not copies:  # else what follows them is one, cut short
            reader.passed += reader.lost
        reader.head_erased = True
        left = self._live[self._tail()]
        self.erases -= 1
        # If not, what is left of the header is that of an erase that was cut short.
        reader.has_programmed(self._reclaim, self._head)
        if left and self._worn == self._head:
            self._refused = left
        return False

    def _is_noted(self, originals):
        # True if NOTEs stand in the head, or a record whose number no other one tells.
        noted = self._noted // self._size == self._head
        if noted or self._newest // self._size != self._head:
            return noted
        number = bytearray(4)
        for at in originals:
            self._read(self._tail() * self._size + at + 5, number)
            if unpack_from("<I", number)[0] + 1 == self.next_seq:
                return False
        return True

    def _find_copies(self, reader):
        # Where in which sector records stand that can be copies, and where in the oldest one records of which they can
        # be.
        if not self._erased:
            return self._head, reader.copies, reader.originals
        size = self._size
        last = reader.last  # in the head, unless damage alone is there
        if last // size != self._tail() == reader.first // size and last == reader.last_live:
            return last // size, (last % size,), (reader.first % size,)
        return self._head, (), ()

    def _is_head_unfinished(self, reader, copies, originals):
        # True if the head, the last erased sector, has not all copies, or no space for what follows them.
        if reader.head_erased:
            return False
        found = sum(1 for _ in self._pairs(self._head, copies, originals))
        if found < len(copies):
            return False
        left = self._live[self._tail()] - self._live[self._head]
        if self._worn == self._head and self._off + min(self.reserve, left + NOTES) <= self._size:
            return False  # behind the worn page there is space for what messages need to leave, or for the copies
        no_space = self._newest // self._size == self._tail() and self._off + NOTES > self._size
        return not found or no_space or found < len(originals)

    def _pairs(self, sector, copies, originals):
        # Yields the address of each copy with that of its original. They are in the same order.
        header = bytearray(HEAD)
        base = sector * self._size
        tail = self._tail() * self._size
        k = 0
        for original in originals:
            self._read(tail + original, header)
            for i in range(k, len(copies)):
                self._read(base + copies[i], self._h)
                if self._h == header:
                    yield base + copies[i], tail + original
                    k = i + 1
                    break

    def _drop_copied(self, reader, at, copy=-1):
        # The record at `at` is done, in favour of its copy if there is one.
        self._load(at)
        kind = self._kind
        n = self.found_len
        state = self._state(at)
        if copy >= 0 and state:  # the last byte of the copy
            reader.set_state(copy, n, state & RELEASED or state)
            self._sync()
        reader.set_state(at, n, DONE)
        self._count(at, kind, -n - OVERHEAD)

    # --- what a power cut interrupted is finished, and damage is retired ---

    def _finish(self, reader):
        if reader.closed or self._head in reader.spoilt:
            self._off = self._size  # it takes nothing more
        end = self._bad % self._size + self._unit
        if self._bad // self._size == self._head and end > self._off:
            # Nothing of what the page did not take is there. It is passed by if it takes zeros.
            base = self._head * self._size
            self._off = end if self._retire_blank(reader, base + self._off, base + end) else self._size
        self._bad = -1
        self._cursor = self._oldest()
        self._skip_numbers(reader)
        untold = self._told[2:] if self._told[:2] == reader.told[:2] else ()
        if untold:
            number, mid, damaged, skipped, messages = untold
            self.damaged += damaged
            self.skipped += skipped
            reader.messages = messages + reader.messages
            if number > self.next_seq:
                self.next_seq = number
                self.last_mid = mid
                reader.renumbered = True
        unsafe = self._count_damage(reader) or reader.renumbered or reader.notes == 1
        unsafe = unsafe or self._newest // self._size in reader.spoilt
        if self._off + NOTES > self._size:  # without NOTEs behind it a record that was cut short would pass for damage
            for at, end in reader.at_end:
                reader.retire(at, end)
            reader.at_end = []
        regions = reader.damaged + reader.at_end
        at_end = AT_END if reader.at_end else 0
        noted = not unsafe or (self._has_space_for_notes() and self._note(len(reader.damaged) | at_end))
        self._sync()
        if not noted and (regions or untold):
            # NOTEs find space only when a sector is collected. If a worn page ends that, the next try finds zeros here.
            damaged, skipped = self._told
            lost = self.damaged - damaged, self.skipped - skipped, reader.messages
            self._told += (self.next_seq, self.last_mid) + lost
        for at, end in regions:  # behind the numbers that it made known, should the power go here
            reader.retire(at, end)
        self._settle_last(reader)
        if self._head in reader.spoilt:
            self._off = self._size
        # Not where a worn page is: the copies would meet it again. Messages need no space to be completed, and make
        # some.
        no_space = (
            not (self._erased or self._live[self._head]) and self._off + self._live[self._tail()] + NOTES > self._size
        )
        if no_space and self._worn != self._head:
            self._begin_head_again(reader)
        try:
            while not self._erased:
                self._collect()
            for sector in reader.spoilt:
                self._make_space_ahead(self._live[sector])
                self._empty(sector, False)
            if not noted or (unsafe and regions):
                self._make_space_ahead(NOTES)
                self._note()
        except OutboxFull:
            pass  # nothing is appended until the broker has completed messages; the next mount finds the same
        self._sync()
        self._tell_losses(reader)
        self.failed = False

    def _settle_last(self, reader):
        # The last live record can be the copy of one in a sector that damage made unfit for live records, which is not
        # the oldest. A message's number tells, which is not new then; of received ids there is one each. Of SESSION
        # records the owner takes the newest.
        last = reader.last_live
        kind = self._parse(last) if last >= 0 else 0
        if kind != IN and not (kind == OUT and reader.copied == last):
            return
        header = kind, self.found_len, self.found_mid, self.found_seq
        for sector in range(self._n if self._state(last) != DONE else 0):
            if 0 < self._live[sector] < 0xFFFF:
                for at, live in reader.records(sector):
                    if live and at != last and unpack_from("<BHHI", reader.buf, reader.load(at, HEAD)) == header:
                        self._drop_copied(reader, at, last)
                        return

    def _retire_blank(self, reader, at, end):
        # A blank region that is left so is the end of the sector's records: only then nothing has to leave the sector.
        spoilt = len(reader.spoilt)
        if reader.retire(at, end):
            return True
        reader.aim(at // self._size)
        if reader.last_byte(at) < 0:
            del reader.spoilt[spoilt:]
        return False

    def _begin_head_again(self, reader=None):
        # Power cuts have left nothing in the head that lives, and no space for a copy of the oldest sector: what is
        # left there are numbers, and NOTEs tell those as soon as it is erased.
        self.erases -= 1
        self._reclaim(self._head)
        self._erased -= 1
        self._off = HEADER
        regions = 0
        while True:
            try:
                self._note(regions)
                break
            except OSError:
                # What a worn page did not take is a record that was cut short: they follow it. Without a reader the
                # caller is not the mount, but one follows.
                off = self._bad % self._size + self._unit
                if not reader or not self._is_worn() or off + NOTES > self._size:
                    raise
                regions = AT_END
                self._off = off
                self._bad = -1
                self._clear_page()
        base = self._head * self._size
        if regions and not reader.retire(base + HEADER, base + self._off - NOTES):
            self._off = self._size

    def _begin_head_for_session(self, size):
        """A SESSION record of `size` bytes is about to be appended, and nothing is erased: power cuts, or a worn page,
        have left no space for what lives in the oldest sector. If the head has none for the record, and nothing lives
        there but SESSION records that it replaces, the head is erased: without the record no message is completed,
        which makes space again. Should power be cut before it is written, it is as if both its copies were damaged."""
        left = self._live[self._head]
        oldest = self._live[self._tail()]
        if not oldest or self._off + size <= self._size or self._off + oldest + NOTES <= self._size:
            return
        sessions = []
        at = self.scan(SESSION, -1)
        while at >= 0:
            if at // self._size == self._head:
                left -= self.found_len + OVERHEAD
                sessions.append(at)
            at = self.scan(SESSION, at)
        if left or not (self.owner and all(self.owner.can_spare(at, True) for at in sessions)):
            return
        for at in sessions:
            self._load(at)
            self._count(at, SESSION, -self.found_len - OVERHEAD)
            self.owner.moved(at, -1)
        self._begin_head_again()

    def _count_damage(self, reader):
        # What was lost ever. Returns True if NOTEs have to tell that.
        damaged, skipped, regions = reader.told
        if self._told[:2] == (damaged, skipped):  # what the mount that a worn page ended found is found again
            self.found_damaged = self.found_skipped = 0
            self.lost = []
        self._told = damaged, skipped
        found = self.damaged - min(regions & ~AT_END, reader.regions)  # what NOTEs count already was not retired yet
        self.lost = self.lost + reader.messages + [None] * (2 * reader.erased + reader.gone)
        self.found_damaged += found
        self.found_skipped += self.skipped
        self.damaged = damaged + found - reader.headers
        self.skipped += skipped
        told = self.damaged == damaged and self.skipped == skipped and not regions
        return not told and self.next_seq > 0

    def _has_space_for_notes(self):
        # True if NOTEs can go to the head now, or to another sector that is not needed for copies of the oldest one.
        left = self._live[self._tail()]
        if not self._erased:
            return self._off + NOTES + left <= self._size
        needed = left > self._size - HEADER - NOTES and not self._is_last_worn()
        return self._off + NOTES <= self._size or self._erased > (1 if needed else 0)

    def _make_space_ahead(self, size):
        # So many bytes fit the head, or a sector that is not the last erased one, which the copies of a sector may
        # take.
        for _ in range(self._n):
            if self._off + size <= self._size or self._erased > 1 or (self._erased and self._is_last_worn()):
                break
            self._collect()

    def _skip_numbers(self, reader):
        # Numbers and Message IDs that may have been given must not come again.
        lost = reader.lost + reader.passed
        if reader.unknown or reader.erased or (reader.damaged and self._newest < 0):
            self.skipped = max(self._most_numbers() - self.next_seq, lost)
        else:
            self.skipped = lost
        self.next_seq += self.skipped
        self._identity[LOSSES] = self._count_losses()
        if self.skipped:
            self.last_mid = (self.last_mid + self.skipped + _UNKEPT_IDS) % 65535

    def _tell_losses(self, reader):
        # The head with its NOTEs may be lost, too: the newest sector, which is blank, tells the losses as well. Or the
        # power went just as its header was finished, which is programmed again then.
        newest = (self.erases - 1) % self._n
        self._read(newest * self._size + LOSSES, self._mark)
        known = self._mark[0] >= self._identity[LOSSES]
        known = known and self._likeness(self.erases - 1, reader.header(newest)) == HEADER
        if self._erased and not (known and self._write):
            reader.has_programmed(self._erase, newest, self.erases - 1, known)

    # --- which numbers can have been given ---

    def _most_numbers(self):
        """More can not have been given, by a ring with so many erases and losses, nor since the numbers that are known.
        A loss of the newest sectors hides at most as many erases as there are sectors. Whatever a damaged header says,
        there are numbers left."""
        given = self.erases * self._most_in_sector() + self._identity[LOSSES] * self._numbers_of_loss()
        return min(max(given, self.next_seq) + self._n * self._most_in_sector(), NEVER - _LEFT)

    def _count_losses(self):
        """How often most_numbers() was passed over to, as the next number tells: that is beyond what erases explain."""
        beyond = self.next_seq - self.erases * self._most_in_sector()
        return min(max(self._identity[LOSSES], -(-beyond // self._numbers_of_loss())), 255)

    def _most_in_sector(self):
        return most_records(self._size - HEADER)

    def _numbers_of_loss(self):
        # As many are passed over, and as many again may be given before the next erase.
        return 2 * self._n * self._most_in_sector()

    # --- which sectors count, in which order ---
    # FORMAT.md, "Which sectors count", tells the rules.

    def _restore_sectors(self, reader):
        """Finds the head of the ring and how many sectors are erased. Finishes erases, or the format, and gives lost
        sectors a header again. Raises ValueError."""
        headers = self._read_headers(reader)
        newest = headers.elect()
        secrets = os.urandom(8) if newest < 0 else headers.secrets[headers.elected]
        self._take_secrets(secrets)
        self._identity[LOSSES] = headers.most_losses()
        self._begin_at(newest)
        for i in range(self._n):
            if headers.is_undecided(i) and headers.has(i, self._number(newest, i)):
                self._make_header_firm(reader, i, headers)
        while newest >= 0 and self._includes_damaged(reader, newest + 1, headers):
            newest += 1
        for k in range(1, self._n + 1):
            i = (newest + k) % self._n
            seq = self._number(newest, i)
            if headers.has(i, seq):
                continue
            # A right header with another number is that of another time: the sector was lost, never half erased.
            wrong = headers.numbers[i] == NEVER
            alike = wrong and self._likeness(seq, reader.header(i)) >= _ALIKE
            if seq < 0 or (k == 1 and wrong and self._is_erase_unfinished(reader, i, alike)):
                self._erase_sector(reader, i, self.erases)
                self._begin_at(self.erases)
            elif reader.is_used(i) or not alike:
                self._read_headless(reader, seq, k, alike)
        self._find_head(reader)
        reader.closed = self._likeness(self._number(self.erases - 1, self._head), reader.header(self._head)) < HEADER

    def _take_secrets(self, secrets):
        self._identity = bytearray(self._geometry() + secrets)
        self.epoch = _word(secrets, 0)
        self._salt_low, self._salt_high = struct.unpack("<HH", secrets[4:])

    def _identify(self, h):
        """The journal has the geometry and the secrets of the header h from now on. Returns False if it has another
        geometry."""
        self._take_secrets(bytes(h[12:20]))
        self._identity[LOSSES] = h[LOSSES]
        return h[:8] == self._identity[:8]

    def _begin_at(self, newest):
        # The ring ends with the sector of that number, until its head is found.
        self.erases = newest + 1
        self._head = newest % self._n
        self._erased = 0

    def _make_header_firm(self, reader, i, headers):
        # Power was cut while it was programmed, and after another cut its bits may not read as what they read as now.
        # So this comes before anything that relies on it.
        losses = self._identity[LOSSES]
        self._identity[LOSSES] = headers.losses[i]
        reader.has_programmed(self._erase, i, headers.numbers[i], True)
        self._identity[LOSSES] = losses

    def _includes_damaged(self, reader, seq, headers):
        # True if the next sector of the ring has the number `seq`, and a damaged header: the ring ends with it then.
        # Its records tell: zeros that are left of a header may be alike the number before. Without records the header
        # does.
        i = seq % self._n
        if headers.numbers[i] != NEVER:
            return False
        likely = self._likeness(seq, reader.header(i))
        before = self._likeness(seq - self._n, reader.header(i))
        if max(likely, before) < _ALIKE or reader.count_records(i)[0]:
            return False
        self._begin_at(seq)
        if reader.count_records(i)[0]:
            return True
        if likely <= before:
            self._begin_at(seq - 1)
            return False
        self._erase_sector(reader, i, seq)  # blank, or its erase or its header was cut short
        headers.correct(i, seq)
        return True

    def _is_erase_unfinished(self, reader, i, alike):
        # The oldest sector, i, has a damaged header. One that is alike is left by no erase, but it may be that of a
        # sector that was erased ahead. And a sector is erased only while another one is in use.
        if alike:
            return not reader.is_used(i)
        return any(reader.is_used(other) for other in range(self._n) if other != i)

    def _read_headers(self, reader):
        found = _Headers(self._n)
        h = bytearray(HEADER)
        geometry = self._geometry()
        for i in range(self._n):
            undecided = reader.decide(i * self._size, h)
            _refuse_others(h)
            right = h.startswith(b"IFJ") and (self._volatile or crc32(h) == RIGHT)
            losses = h[LOSSES]
            h[LOSSES] = 0
            if right and not h.startswith(geometry):
                raise ValueError("a journal of another size is here: give that size, or inflight.erase(device)")
            seq = _word(h, 8)
            if right and seq < NEVER and seq % self._n == i:
                found.add(i, seq, bytes(h[12:20]), losses, undecided)
        return found

    def _geometry(self):
        size = 0
        while self._size >> size + 1:
            size += 1
        return struct.pack("<3sBBBH", b"IFJ", _VERSION, size, 0, self._n)

    def _number(self, newest, i):
        # The sequence number that sector i has in a ring whose newest sector has the number `newest`.
        return newest - (newest - i) % self._n

    def _read_headless(self, reader, seq, k, alike):
        # The sector with the number `seq`, the k-th oldest, was in use, and its header is not right.
        found, live = reader.count_records(seq % self._n)
        if not found and not alike:
            reader.erased += 1
            self.damaged += 2  # more than one record may have been in it
            self._erase_sector(reader, seq % self._n, seq)
            return
        if live or k > 1:  # else it may have been retired in part
            self.damaged += 1
            reader.headers += 1
        if not alike:
            reader.spoilt.append(seq % self._n)

    def _erase_sector(self, reader, i, seq):
        # A header with bits that cannot be cleared is as good as one with bits that flipped.
        if not reader.has_programmed(self._erase, i, seq) and self._likeness(seq, reader.header(i)) < _ALIKE:
            self._fail("a sector of the journal does not take its header")

    def _likeness(self, seq, h):
        """How many bytes of the header h are as the number `seq` wants them; HEADER: it is right."""
        right = self._identity[:8] + struct.pack("<I", seq & 0xFFFFFFFF) + self._identity[8:]
        right[LOSSES] = h[LOSSES]
        right += struct.pack("<I", 0 if self._volatile else crc32(right))
        return sum(h[i] == right[i] for i in range(HEADER))

    def _has_flipped(self, seq, h):
        """True if h is the header of the number `seq` but for bits that have flipped, and no right one of another."""
        return self._likeness(seq, h) >= _ALIKE and crc32(memoryview(h)[:20]) != _word(h, 20)

    def _find_head(self, reader):
        # The newest sector with more behind its header than bits that cannot be set, the oldest if there is none.
        newest = self._head
        has_bits = False
        while self._erased < self._n - 1:
            used = reader.is_used(self._head, True)
            if used and reader.has_records_or_damage():
                break
            has_bits = used
            self._erased += 1
            self._head = (newest - self._erased) % self._n
        # Such bits in the sector behind it may be all of a record that was cut short, unless it was just erased. Or
        # that reads as blank at times.
        if self._erased and not reader.head_erased and (has_bits or reader.is_used((self._head + 1) % self._n)):
            self._erased -= 1
            self._head = (self._head + 1) % self._n

    # --- the quick mount ---
    # The quick mount of a ring with checkpoints. It trusts only what is as a healthy ring has it, but for bits that
    # have flipped in headers, or as a power cut in the head, or in the erase of the oldest sector, leaves it; else it
    # gives up, and the mount of the whole ring finds out. Whatever it programs before that, that mount would program,
    # too: as if it had been cut short.
    #
    # The numbers of sectors are consecutive: the newest one is found by bisection, which steps around headers that are
    # not right. Going back from there, sectors whose first bytes are blank are erased, and the first other one is the
    # head. The last checkpoint there, or in a sector before it, tells what was live when it was written. Since then
    # records were only added to the sector that it stands in and to those behind it; all others can only have become
    # done. So these sectors are read, as the mount of the whole ring reads them: those that the checkpoint names, which
    # have live records other than OUT; from the first one with live OUT records on, those up to the first message that
    # still is; and those from the checkpoint's own on. Between them only messages that wait can be live. These sectors
    # are counted when somebody gets there (Checkpoints). If messages are not in their order, or few sectors would be
    # left out, none is. In all the rest nothing is alive: they are read before they are erased, or when there is time.

    def _mount_quickly(self):
        """The journal has checkpoints from now on. Mounts it at a start; `failed` stands if all of it is to be read."""
        self.checkpoints = c = Checkpoints(self)
        self._count, self._next, self._open_next = c.count_record, c.next_record, c.open_next
        self.scan, self.find, self.next_used = c.scan, c.find, c.next_used
        self._collect, self.collect = c.collect_oldest, c.collect
        try:
            found = self._try_quickly(self._size)
        except MemoryError:
            found = self._try_quickly(LEAST)
        if found:
            self.checkpoints.ready = True
        else:
            self.failed = True
            self.next_seq = 0  # nobody has used a number yet

    def _try_quickly(self, size):
        # With a buffer of that size. Returns True if the journal is mounted.
        reader, found = SectorReader(self, size), None
        try:
            for leaving_out in (True, True, False):
                if found is None:
                    found = self._mount_from_checkpoint(reader, leaving_out)
            if found:
                self._finish(reader)
        except OSError:
            found = False  # the mount of the whole ring meets it again, and knows what to do
        return found

    def _mount_from_checkpoint(self, reader, leaving_out):
        # leaving_out: sectors in which messages wait are not counted. Returns None if they have to be.
        self._clear(reader)
        if not self._find_newest(reader):
            return False
        at = self._find_checkpoint(reader)
        if at == -2:
            return False
        named, first, told = self._read_checkpoint(at)
        leaving_out = (
            leaving_out and at >= 0 and told[4] & IN_ORDER and self._number_of(at // self._size) - first > _FEW
        )
        if not self._read_named(reader, named, first, self._number_of(at // self._size) if leaving_out else 0):
            return False
        if self.damaged or reader.unknown or reader.renumbered or reader.telling or reader.told[2]:
            return False
        self.damaged = reader.headers
        if at >= 0:
            self._take_numbers(reader, told)
        self.unread = first - self.erases + self._n
        self.checkpoints.has_read(first, self._number_of(at // self._size) if at >= 0 else 0)
        if self.checkpoints.uncounted:
            checkpoint, used, live = reader.before
            if checkpoint != at or not self._ordered:
                return None  # the last one may have been cut short, and read differently before
            if told[5] < used or told[6] < live:
                return False
            self.unread = self._number_of(at // self._size) - self.erases + self._n
            self.checkpoints.may_have(told[5] - used, told[6] - live)
        if reader.last >= 0 and not self._write:
            reader.aim(reader.last // self._size)
            if not reader.make_firm(reader.last):
                return False
        return self._settle(reader)

    def _read_named(self, reader, named, first, end):
        # Those that are named, and from `first` on all others; but of those before `end`, from the first one on in
        # which a message is live, none that is not named. Returns False if one of them was lost.
        for number in named:
            if number < first and not self._read_whole(reader, number):
                return False
        for number in range(first, self.erases - self._erased):
            if self.live and number < end and number not in named:
                self.checkpoints.leave_out(number % self._n)
            elif not self._read_whole(reader, number):
                return False
        return True

    def _read_whole(self, reader, number):
        sector = number % self._n
        h = bytearray(HEADER)
        self._read(sector * self._size, h)
        if not self._is_header(h, number):
            return False
        self._read_sector(reader, sector)
        if self._number_in(h, sector) < 0 and (self._live[sector] or number > self.erases - self._n):
            reader.headers += 1
        return True

    # --- the head ---

    def _find_newest(self, reader):
        # Sets head, erased and erases. An erase that was cut short is finished.
        n = self._n
        h = bytearray(HEADER)
        for low in range(_MOST_BAD):
            self._read(low * self._size, h)
            first = self._number_in(h, low) - low if low < n and self._identify(h) else -1
            if first >= 0:
                break
        else:
            return False
        high = n  # low has the number first + low; high has not, if it is a sector
        while high - low > 1:
            i = middle = (low + high) // 2
            number = -1
            while number < 0 and i < high:
                self._read(i * self._size, h)
                number = self._number_in(h, i)
                i += 1
            i -= 1
            if number == first + i:
                low = i
            elif number < 0 or number == first + i - n:
                high = middle
            else:
                return False
        newest = first + low
        oldest = (low + 1) % n
        # The newest header was the last one to be programmed, that of the oldest sector may have been about to go.
        if reader.decide(low * self._size, h) or self._number_in(h, low) != newest:
            return False
        self._identity[LOSSES] = h[LOSSES]
        if not self._find_head_back(reader, newest):
            return False
        undecided = reader.decide(oldest * self._size, h)
        number = self._number_in(h, oldest)
        if undecided or number >= 0:
            return number == newest + 1 - n and not undecided
        if max(self._likeness(newest + 1, h), self._likeness(newest + 1 - n, h)) >= _ALIKE:
            return reader.count_records(oldest)[0] > 0  # no erase has left it: it may be the newest one if it has none
        return self._finish_erase(reader, oldest)

    def _number_in(self, h, i):
        # The number in the header h of sector i, -1 if it is not right.
        number = unpack_from("<I", h, 8)[0]
        right = number % self._n == i and number < NEVER and self._likeness(number, h) == HEADER
        return number if right else -1

    def _find_head_back(self, reader, newest):
        n = self._n
        start = bytearray(HEADER + _START)
        self.erases = newest + 1
        self._erased = 0
        while True:
            self._head = (newest - self._erased) % n
            self._read(self._head * self._size, start)
            if not self._is_header(start, newest - self._erased):
                return False  # a sector that was lost reads as an erased one
            if self._erased == n - 1 or start[HEADER:].count(b"\xff") < _START:
                break
            self._erased += 1
        # In the sector behind the head a record may have been cut short. A header that is damaged takes no more
        # records.
        reader.closed = self._likeness(newest - self._erased, reader.header(self._head)) < HEADER
        return self._erased and not reader.is_used((self._head + 1) % n)

    def _is_header(self, h, number):
        # True if h begins with the header of that number, though bits of it may have flipped.
        right = h[:LOSSES] == self._identity[:LOSSES] and h[LOSSES + 1 : 8] == self._identity[LOSSES + 1 : 8]
        if right and unpack_from("<I", h, 8)[0] == number and h[12:20] == self._identity[8:]:
            return True
        return self._has_flipped(number, h)

    def _finish_erase(self, reader, sector):
        # The header of the oldest sector is not even alike one: if that of the next one is right, and the head is in
        # use, its erase was cut short.
        n = self._n
        seq = self.erases
        h = bytearray(HEADER)
        self._read((sector + 1) % n * self._size, h)
        if self._number_in(h, (sector + 1) % n) != seq + 1 - n or self._erased > n - 3:
            return False
        self._erase_sector(reader, sector, seq)
        self.erases += 1
        self._erased += 1
        return True

    # --- what is live ---

    def _find_checkpoint(self, reader):
        # The address of the last one, -1 if there is none in the whole ring, -2 if it is not found soon.
        number = self.erases - 1 - self._erased
        for _ in range(_MOST_BACK):
            at = self._checkpoint_in(reader, number % self._n)
            if at >= 0 or number == self.erases - self._n:
                return at
            number -= 1
        return -2

    def _checkpoint_in(self, reader, sector):
        reader.aim(sector)
        at = reader.base + HEADER
        last = reader.last_byte(at)
        found = -1
        while at <= last:
            if reader.has_record(at):
                i = reader.load(at, HEAD)
                kind, n = unpack_from("<BH", reader.buf, i)
                if kind == NOTE and n >= CHECKPOINT:
                    found = at
                at += n + OVERHEAD
            else:
                at += 1
        return found

    def _read_checkpoint(self, at):
        # The numbers of the sectors that the checkpoint at address `at` names, that of the first one with live OUT
        # records, and (lost to damage, passed over, sector of the newest number, of the last NOTE that tells of losses,
        # flags, bytes in use, live messages).
        n = self._n
        oldest = self.erases - n
        if at < 0:
            return (), oldest, ()
        self._load(at)
        body = bytearray(self.found_len)
        self._read(at + HEAD, body)
        damaged, skipped, _, newest, noted, first = unpack_from("<IIBHHH", body)
        here = self._number_of(at // self._size)
        if here - (here - noted) % n < oldest:
            noted = n  # erased since: the NOTEs stand behind the checkpoint
        told = (damaged, skipped, newest, noted) + unpack_from("<BIH", body, 15)
        named = []
        for i in range(CHECKPOINT, len(body) - 1, 2):
            number = here - (here - unpack_from("<H", body, i)[0]) % n
            if number >= oldest:  # else it was erased since
                named.append(number)
        return named, max(oldest, here - (here - first) % n), told

    def _number_of(self, sector):
        return self.erases - 1 - (self.erases - 1 - sector) % self._n

    def _take_numbers(self, reader, told):
        # What the records tell that were not read: the checkpoint knew.
        damaged, skipped, newest, noted = told[:4]
        if self._newest >= 0:
            self._load(self._newest)
            if self._kind == NOTE and self.found_len >= CHECKPOINT:
                self._newest = newest * self._size
                reader.notes = 0
        if noted < self._n and (self._noted < 0 or self._number_of(noted) > self._number_of(self._noted // self._size)):
            self._noted = noted * self._size
        reader.told = max(damaged, reader.told[0]), max(skipped, reader.told[1]), 0

    # --- what a journal knows before it is mounted ---


class _Headers:
    # Of each sector whose header is right: its sequence number (of others NEVER), the place of its epoch and salt in
    # `secrets`, losses, has it undecided bits. elected: the place of those of the journal. Six bytes a sector: a ring
    # of 8 MiB has 2,048.

    def __init__(self, n):
        self.numbers = array("I", bytes(4 * n))
        self.losses = bytearray(n)
        self._marks = bytearray(n)  # twice the place in `secrets`, one more: it has undecided bits
        self.secrets = []
        self.elected = -1
        for i in range(n):
            self.numbers[i] = NEVER

    def add(self, i, number, secrets, losses, undecided):
        """Sector i has this header."""
        if secrets not in self.secrets:
            if len(self.secrets) > 127:
                return  # whatever these are
            self.secrets.append(secrets)
        self.numbers[i] = number
        self.losses[i] = losses
        self._marks[i] = 2 * self.secrets.index(secrets) + undecided

    def is_undecided(self, i):
        """True if bits of its header read differently each time."""
        return self._marks[i] & 1

    def correct(self, i, number):
        """Sector i has the header of that number since."""
        self.numbers[i] = number
        self._marks[i] = 2 * self.elected

    def has(self, i, number):
        """True if sector i has the header of that number."""
        return self.numbers[i] == number and self._marks[i] >> 1 == self.elected

    def elect(self):
        """Returns the number of the newest sector, -1 if there is none: that with which most sectors agree. Those do
        that have its secrets, and a number that is lower by less than a ring."""
        best = 0
        newest = -1
        for owner in range(len(self.secrets)):
            votes, number = self._vote(owner)
            if votes > best or (votes == best and number > newest):
                best = votes
                newest = number
                self.elected = owner
        return newest

    def _of(self, owner):
        for i, number in enumerate(self.numbers):
            if self._marks[i] >> 1 == owner and number != NEVER:
                yield number

    def _vote(self, owner):
        # (with how many of those with these secrets most agree, the number with which they do)
        n = len(self.numbers)
        highest = max(self._of(owner), default=-1)
        every = sum(1 for _ in self._of(owner))
        if sum(1 for number in self._of(owner) if number + n > highest) == every:
            return every, highest  # without a list of them
        best = newest = first = 0
        ring = sorted(self._of(owner))
        for last, number in enumerate(ring):
            while ring[first] + n <= number:
                first += 1
            if last - first + 1 >= best:
                best = last - first + 1
                newest = number
        return best, newest

    def most_losses(self):
        """What any sector of the journal tells."""
        return max((self.losses[i] for i, mark in enumerate(self._marks) if mark >> 1 == self.elected), default=0)


def _refuse_others(h):
    # The format before this one had a header of 16 bytes and their CRC.
    if h[3] != _VERSION and h.startswith(b"IFJ") and _word(h, 16) == crc32(memoryview(h)[:16]):
        raise ValueError("a journal of format %d is here: erase it with inflight.erase(device)" % h[3])


def _word(buf, i):
    return unpack_from("<I", buf, i)[0]


def erase(device):
    """Erases a journal for good, whatever is in it."""
    for i in range(device.ioctl(4, 0)):
        device.ioctl(6, i)
