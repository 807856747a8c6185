# What a ring of more than 64 KiB keeps beside its records, so that a mount need not read all of them: see quick. It is
# loaded for such a ring only.

from array import array
from struct import pack_into

from ..compat import const
from .pages import CHUNK
from .records import CHECKPOINT, CLEARED, DONE, HEADER, IN, LOSSES, NOTE, OUT, OVERHEAD, SESSION

IN_ORDER = const(1)  # a flag of a checkpoint: the messages stand in their order, and all others are named
_MOST = const(40)  # sectors that a checkpoint names
_APART = const(7)  # sectors from one checkpoint to the next, at most: a start looks into so many, and one more
_BEHIND = const(2)  # a mount reads so many sectors more, at most, than it would with a new checkpoint
_READS = const(6)  # of a state that may read differently each time,
_MORE_READS = const(16)  # and if it did
_ALL_IDS = const(5534)  # messages that cannot have passed 65,535 ids in use, since 60,000 messages wait at most
_UNCOUNTED = const(0xFFFF)  # in place of the live bytes of a sector: nobody knows them yet
_NEAR = const(16)  # a message that is so many behind the one that was found before is not far
_KINDS = (OUT, IN, SESSION, NOTE)


class Checkpoints:
    """Those of the journal `j`, which calls what stands here in place of some of its own methods behind that. Sectors
    are told by their sequence numbers: that of the tail is j.erases - n."""

    def __init__(self, j):
        self.others = array("H", bytes(2 * j._n))  # bytes of live records in each sector that are no OUT
        self._body = bytearray(CHECKPOINT + 2 * _MOST)
        self._one = bytearray(1)
        self._journal = j
        self._count = j._count
        self._next = j._next
        self._scan = j.scan
        self._find = j.find
        self._next_used = j.next_used
        self._open = j._open_next
        self._collect = j._collect
        self._collect_idly = j.collect
        self.begin()

    def begin(self):
        """A mount begins. Until it ends none is written: what the journal knows is not all of it."""
        self.ready = False
        self._journal.unread = 0
        self.uncounted = 0  # sectors
        self._used = self._live = 0  # of what the journal takes for live, bytes and messages at most in these
        self._first = self._first_other = 0  # no sector before these has a live OUT, or another live record
        self._written = 0  # the first one when the last checkpoint was written
        self._last = 0  # the sector that it stands in
        for i in range(len(self.others)):
            self.others[i] = 0

    def has_read(self, first, last):
        """Nothing is alive before the sector with the number `first`, but what was read. The last checkpoint stands in
        the one with the number `last`."""
        self._first = self._written = first
        self._last = last

    def leave_out(self, sector):
        """The mount does not count what is live in this sector: it is counted when it is read."""
        self._journal._live[sector] = _UNCOUNTED
        self.uncounted += 1

    def may_have(self, used, live):
        """The mount is through: those that it left out have `used` bytes in use and `live` messages, at most. Until all
        are counted, the figures of the journal may be too high."""
        self._used = used
        self._live = live
        self._journal.used += used
        self._journal.live += live
        self._end_count()

    def count_rest(self):
        """Counts what the mount has left out."""
        j = self._journal
        for sector in range(j._n):
            if j._live[sector] == _UNCOUNTED:
                self._read(sector)

    # --- in place of the journal's own methods ---

    def count_record(self, at, kind, size):
        self._count(at, kind, size)
        if kind != OUT:
            self.others[at // self._journal._size] += size

    def next_record(self, at):
        # Counts what is live in each sector that it reaches.
        j = self._journal
        at = self._next(at)
        while at >= 0 and j._live[at // j._size] == _UNCOUNTED:
            self._read(at // j._size)
            at = self._next(at)
        return at

    def scan(self, kind, at):
        # Of other kinds than OUT there are few, and many sectors without.
        if kind == OUT:
            return self._scan(kind, at)
        j = self._journal
        if at < 0:
            at = j._oldest()
        else:
            j._load(at)
            at = j._behind(at)
        while True:
            sector = at // j._size
            at = self._next(at) if self.others[sector] else -1
            if at // j._size != sector:
                if sector == j._head:
                    return -1
                at = (sector + 1) % j._n * j._size + HEADER
                continue
            if j._kind == kind:
                j.found_state = j._state(at)
                if j.found_state != DONE:
                    return at
            at = j._behind(at)

    def find(self, kind, seq):
        # Where messages stand in their order, begins in the last sector that can have the record, as far as checkpoints
        # tell: that of a sector tells a lower number than any message behind it has.
        j = self._journal
        known = seq >= j._cursor_seq
        if j._ordered and not (known and seq - j._cursor_seq < _NEAR):
            n = j._n
            tail = j._tail()
            low = (j._cursor // j._size - tail) % n if known else 0
            end = (j._head - tail) % n + 1
            while end - low > 1:
                i = (low + end) // 2
                if self._has_checkpoint((tail + i) % n) and j.found_seq < seq:
                    low = i
                    known = False
                else:
                    end = i
            if not known:
                j._cursor = (tail + low) % n * j._size + HEADER
                j._cursor_seq = seq
        return self._find(kind, seq)

    def open_next(self, size):
        # The head begins with a checkpoint, if that and the record of `size` bytes fit.
        self._open(size)
        j = self._journal
        n = self._describe()
        if n and j._off + OVERHEAD + n + size <= j._size:
            self._write(n)
        elif n and self._spares_one(size):
            self._write(self._describe())
        if j._off + size > j._size:
            self._open(size)

    def _spares_one(self, size):
        # True if the sector that was just opened may be left to a checkpoint: records that fill whole sectors leave no
        # space for one. Either more are erased than the next appends may need, or the oldest one takes its place.
        j = self._journal
        if j.erases - 1 - j._erased - self._last < _APART:
            return False
        if j._erased < 2 or j._erased <= 4 * (j.used + size) // (7 * (j._size - HEADER)):
            if j._live[j._tail()]:
                return False
            j._collect()
        return j._erased > 1

    def collect_oldest(self):
        j = self._journal
        if not j.unread:
            self._collect()
            return
        self._read(j._tail())
        self._collect()
        j.unread -= 1
        if j._live[j._tail()] == _UNCOUNTED:
            self._read(j._tail())

    def collect(self, idle=True):
        # Beside what a short ring does: notes that the first sectors need not be read any more; `idle`, reads one that
        # the mount has not read.
        j = self._journal
        if self._collect_idly(idle):
            return True
        if self._first_out() - self._written >= _BEHIND:
            n = self._describe()
            if n and j._off + OVERHEAD + n <= j._size:
                j._begin()
                j._sync()
                self._write(n)
                j.failed = False
                return False
        if idle and j.unread:
            self._read((j.erases - j._n + j.unread - 1) % j._n)
            j.unread -= 1
        return False

    # --- what a checkpoint tells ---

    def _first_out(self):
        # The number of the first sector with live OUT records, that of the head if there is none before it.
        j = self._journal
        n = j._n
        head = j.erases - 1 - j._erased
        i = max(self._first, j.erases - n)
        while i < head and j._live[i % n] == self.others[i % n]:
            i += 1
        self._first = i
        return i

    def _describe(self):
        # Fills the body. Returns its size; 0 if there is to be no checkpoint: before the mount is through, before the
        # first message, and in the last erased sector, which may have to take all copies of another one.
        j = self._journal
        if not (self.ready and j._erased and j._newest >= 0):
            return 0
        n = j._n
        size = j._size
        body = self._body
        head = j.erases - 1 - j._erased
        first = self._first_out()
        i = max(self._first_other, j.erases - n)
        while i < first and not self.others[i % n]:
            i += 1
        self._first_other = i
        flags = IN_ORDER if j._ordered else 0
        left = j._others
        end = CHECKPOINT
        while i < head and left:
            if self.others[i % n]:
                if end == len(body):  # all from there on are to be read
                    first = min(first, i)
                    flags = 0
                    break
                pack_into("<H", body, end, i % n)
                end += 2
                left -= self.others[i % n]
            i += 1
        noted = j._noted // size & 0xFFFF  # -1: there is none
        pack_into("<IIBHHH", body, 0, j.damaged, j.skipped, 0, j._newest // size, noted, first % n)
        pack_into("<BIH", body, 15, flags, j.used, j.live)
        return end

    def _write(self, n):
        j = self._journal
        newest = j._newest  # two NOTEs, or an OUT, tell the number; if this one is lost, they are still there
        j._append(NOTE, j.last_mid, self._body, n, b"", b"", 0)
        j._sync()  # without it the record that follows would stand behind damage
        j._newest = newest
        self._written = self._first
        self._last = j.erases - 1 - j._erased

    # --- what the mount has not read ---

    def _read(self, sector):
        # Reads all records of a sector that the mount has not read, and counts those that are live if nobody has. Fails
        # if one is damaged, or live and not known: the mount that follows reads the whole ring.
        j = self._journal
        size = j._size
        at = sector * size
        end = at + size
        right = self._has_header(sector)
        at += HEADER
        live = others = used = messages = 0
        while right and at + OVERHEAD <= end:
            kind = j._parse(at)
            if kind == 0xFF:
                break
            if not kind:
                at += j.found_len
                continue
            right = kind in _KINDS
            j._sum_record(at, False)
            n = j.found_len + OVERHEAD
            if kind != NOTE and self._is_live(at + n - 1, j._live[sector] == _UNCOUNTED):
                live += n
                used += j.cost(j.found_len)
                if kind == OUT:
                    messages += 1
                else:
                    others += n
            at += n
        while right and at < end:  # behind them nothing was programmed
            start = min(at, end - CHUNK)
            j._read(start, j._chunk)
            for i in range(at - start, CHUNK):
                b = j._chunk[i]
                right = right and (b == 0xFF or not b & b - 1)
            at = start + CHUNK
        if right and others == self.others[sector]:
            if live == j._live[sector]:
                return
            if j._live[sector] == _UNCOUNTED and used <= self._used and messages <= self._live:
                j._live[sector] = live
                self._correct(used, messages)
                return
        j._fail("a sector of the journal is not what was noted of it")

    def _has_header(self, sector):
        j = self._journal
        h = self._body
        j._read(sector * j._size, h)
        number = h[8] | h[9] << 8 | h[10] << 16 | h[11] << 24
        right = number % j._n == sector and j.erases - j._n <= number < j.erases
        for i in range(8):
            right = right and (i == LOSSES or h[i] == j._identity[i]) and h[12 + i] == j._identity[8 + i]
        if right:
            return True
        return j._has_flipped(j._number_of(sector), h)

    def _is_live(self, at, anew):
        # The state at address `at`. anew: it may have been about to change when the power was cut, and read differently
        # each time. It is finished here then, as the mount of the whole ring does.
        j = self._journal
        one = self._one
        j._read(at, one)
        b = first = one[0]
        differs = False
        k = 1
        while anew and (k < _READS or (differs and k < _MORE_READS)):
            j._read(at, one)
            differs = differs or one[0] != first
            b &= one[0]
            k += 1
        released = CLEARED[b >> 4] > (1 if differs else 2)  # that it is set aside is one bit
        done = CLEARED[b & 15] > (2 if released else 1)
        if differs or (anew and (CLEARED[b & 15] == 2 or CLEARED[b >> 4] == 3)):
            if done:
                b &= 0xF0
            elif released:
                b &= 0x0F
            one[0] = b
            failed = j.failed
            j.failed = True
            j._clear_bits(at, one, 1)
            j._sync()
            j.failed = failed
        return not done

    # --- Message IDs ---

    def find_mid(self, mid):
        """Returns the address of the live OUT record with this Message ID, -1 if there is none; -2 if only a look at
        each record would tell. Sets found_* like find(). Raises OSError."""
        j = self._journal
        if not self._has_ids_in_order():
            return -2
        seq = j.found_seq + (mid - j.found_mid) % 65535
        at = j.find(OUT, seq) if seq < j.next_seq else -1
        return at if at >= 0 and j.found_seq == seq else -1

    def next_used(self, mid):
        # Without a look at each message, if that will do.
        j = self._journal
        if self._has_ids_in_order():
            first = j.found_mid
            if (mid - j.last_mid - 1) % 65535 < (first - j.last_mid - 1) % 65535:
                return first
        return self._next_used(mid)

    def _has_ids_in_order(self):
        # True if all ids in use are known to be those from the one of the oldest live message to that of the newest
        # one, each of the message that is as many behind the oldest. found_* tell of the oldest one then.
        j = self._journal
        at = j.find(OUT, 0)
        if at < 0:
            return False
        # Each message took the next id that was free. Where there are as many ids as messages none was in use, or all
        # were twice: with so few messages from one checkpoint to the next, more than there can be would have waited.
        mid = j.found_mid
        seq = j.found_seq
        step = max(1, _ALL_IDS // (j._size // OVERHEAD))
        left = (j._head - at // j._size) % j._n
        while True:
            end = left
            left -= step
            while 0 <= left < end and not self._has_checkpoint((j._head - left) % j._n):
                left += 1
            last = j.found_seq if left >= 0 else j.next_seq - 1
            last_mid = j.found_mid if left >= 0 else j.last_mid
            if left == end or not 0 <= last - seq <= _ALL_IDS or (last_mid - mid) % 65535 != last - seq:
                return False
            if left < 0:
                j._load(at)
                return True
            seq = last
            mid = last_mid

    def _has_checkpoint(self, sector):
        # True if the sector begins with one. found_seq and found_mid are the highest ones in front of it then.
        j = self._journal
        return j._parse(sector * j._size + HEADER) == NOTE and j.found_len >= CHECKPOINT

    def _correct(self, used, messages):
        # One sector more is counted.
        self._used -= used
        self._live -= messages
        self.uncounted -= 1
        self._end_count()

    def _end_count(self):
        # If all sectors are counted, or nothing can live in the others, the figures of the journal are right.
        j = self._journal
        if not self._live:
            for i in range(j._n):
                if j._live[i] == _UNCOUNTED:
                    j._live[i] = 0
            self.uncounted = 0
        if not self.uncounted:
            j.used -= self._used
            j.live -= self._live
            if j.owner:
                try:
                    j.owner.queued -= self._live
                except AttributeError:
                    pass  # it does not count those that wait
            self._used = self._live = 0
