# What a ring of more than 64 KiB keeps beside its records, so that a mount need not read all of them: see quick. It is
# loaded for such a ring only.

from array import array
from struct import pack_into

from ..compat import const
from .pages import CHUNK
from .records import CHECKPOINT, CLEARED, HEADER, IN, LOSSES, NOTE, OUT, OVERHEAD, SESSION, UNCOUNTED

IN_ORDER = const(1)  # a flag of a checkpoint: the messages stand in their order, and all others are named
_MOST = const(24)  # sectors that a checkpoint names
_BEHIND = const(2)  # a mount reads so many sectors more, at most, than it would with a new checkpoint
_READS = const(6)  # of a state that may read differently each time,
_MORE_READS = const(16)  # and if it did
_ALL_IDS = const(5534)  # messages that cannot have passed 65,535 ids in use, since 60,000 messages wait at most
_KINDS = (OUT, IN, SESSION, NOTE)


class Checkpoints:
    """Those of a journal of n sectors. Sectors are told by their sequence numbers: that of the tail is j.erases - n."""

    def __init__(self, n):
        self.others = array("H", bytes(2 * n))  # bytes of live records in each sector that are no OUT
        self._body = bytearray(CHECKPOINT + 2 * _MOST)
        self._one = bytearray(1)
        self.begin()

    def begin(self):
        """A mount begins. Until it ends none is written: what the journal knows is not all of it."""
        self.ready = False
        self.uncounted = 0  # sectors
        self._used = self._live = 0  # of what the journal takes for live, bytes and messages at most in these
        self._first = self._first_other = 0  # no sector before these has a live OUT, or another live record
        self._written = 0  # the first one when the last checkpoint was written
        for i in range(len(self.others)):
            self.others[i] = 0

    def has_read(self, first):
        """Nothing is alive before the sector with the number `first`, but what was read."""
        self._first = self._written = first

    def leave_out(self, j, sector):
        """The mount does not count what is live in this sector: it is counted when it is read."""
        j._live[sector] = UNCOUNTED
        self.uncounted += 1

    def may_have(self, j, used, live):
        """The mount is through: those that it left out have `used` bytes in use and `live` messages, at most. Until all
        are counted, the figures of `j` may be too high."""
        self._used = used
        self._live = live
        j.used += used
        j.live += live

    def write_in_new_head(self, j, size):
        """The head of `j` was just opened for a record of `size` bytes: it begins with a checkpoint, if both fit, and
        if this is not the last erased sector, which may have to take all copies of another one."""
        if self.ready and j._erased and j.next_seq:
            n = self._describe(j)
            if j._off + OVERHEAD + n + size <= j._size:
                self._write(j, n)

    def work(self, j, idle):
        """The journal has time: notes that the first sectors need not be read any more; `idle`, reads one that the
        mount has not read. Raises OSError."""
        if self._first_out(j) - self._written >= _BEHIND and j._erased and j.next_seq:
            n = self._describe(j)
            if j._off + OVERHEAD + n <= j._size:
                j._begin()
                j._sync()
                self._write(j, n)
                j.failed = False
                return
        if idle and j.unread:
            self.read(j, (j.erases - j._n + j.unread - 1) % j._n)
            j.unread -= 1

    def moved(self, j, at, new, size):
        """A live record that is no OUT was copied."""
        self.others[at // j._size] -= size
        self.others[new // j._size] += size

    def collected(self, j):
        """The oldest sector was erased, which the mount had not read."""
        j.unread -= 1
        if j._live[j._tail()] == UNCOUNTED:
            self.read(j, j._tail())

    def _first_out(self, j):
        # The number of the first sector with live OUT records, that of the head if there is none before it.
        n = j._n
        head = j.erases - 1 - j._erased
        i = max(self._first, j.erases - n)
        while i < head and j._live[i % n] == self.others[i % n]:
            i += 1
        self._first = i
        return i

    def _describe(self, j):
        # Fills the body. Returns its size.
        n = j._n
        size = j._size
        body = self._body
        head = j.erases - 1 - j._erased
        first = self._first_out(j)
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
        newest = j._newest // size & 0xFFFF  # -1: there is none
        noted = j._noted // size & 0xFFFF
        pack_into("<IIBHHH", body, 0, j.damaged, j.skipped, 0, newest, noted, first % n)
        pack_into("<BIH", body, 15, flags, j.used, j.live)
        return end

    def _write(self, j, n):
        newest = j._newest  # two NOTEs, or an OUT, tell the number; if this one is lost, they are still there
        j._append(NOTE, j.last_mid, self._body, n, b"", b"", 0)
        j._sync()  # without it the record that follows would stand behind damage
        j._newest = newest
        self._written = self._first

    def read(self, j, sector):
        """Reads all records of a sector that the mount has not read, and counts those that are live if nobody has.
        Fails if one is damaged, or live and not known: the mount that follows reads the whole ring."""
        size = j._size
        at = sector * size
        end = at + size
        right = self._has_header(j, sector)
        at += HEADER
        live = others = used = messages = 0
        while right and at + OVERHEAD <= end:
            kind = j._parse(at)
            if kind == 0xFF:
                break
            if not kind:
                at += 1
                continue
            right = kind in _KINDS
            j._sum_record(at, False)
            n = j.found_len + OVERHEAD
            if kind != NOTE and self._is_live(j, at + n - 1, j._live[sector] == UNCOUNTED):
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
            if j._live[sector] == UNCOUNTED and used <= self._used and messages <= self._live:
                j._live[sector] = live
                self._count(j, used, messages)
                return
        j._fail("a sector of the journal is not what was noted of it")

    def _has_header(self, j, sector):
        h = self._body
        j._read(sector * j._size, h)
        number = h[8] | h[9] << 8 | h[10] << 16 | h[11] << 24
        right = number % j._n == sector and j.erases - j._n <= number < j.erases
        for i in range(8):
            right = right and (i == LOSSES or h[i] == j._identity[i]) and h[12 + i] == j._identity[8 + i]
        return right

    def _is_live(self, j, at, anew):
        # The state at address `at`. anew: it may have been about to change when the power was cut, and read differently
        # each time. It is finished here then, as the mount of the whole ring does.
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
        done = CLEARED[b & 15] > 1
        if differs or (anew and (CLEARED[b & 15] == 2 or CLEARED[b >> 4] == 2)):
            if done:
                b &= 0xF0
            elif CLEARED[b >> 4] > 1:
                b &= 0x0F
            one[0] = b
            failed = j.failed
            j.failed = True
            j._clear_bits(at, one, 1)
            j._sync()
            j.failed = failed
        return not done

    def next_used(self, j, mid):
        """Returns the first Message ID from `mid` on that a live message has, without a look at each of them; 0: only
        that would tell."""
        first = self._first_mid(j) if self.uncounted else 0
        return first if first and (mid - j.last_mid - 1) % 65535 < (first - j.last_mid - 1) % 65535 else 0

    def _first_mid(self, j):
        # The Message ID of the oldest live message if all ids in use are known to be those from this one to that of the
        # newest one; else 0.
        at = j.find(OUT, 0)
        if at < 0:
            return 0
        # Each message took the next id that was free. Where there are as many ids as messages none was in use, or all
        # were twice: with so few messages from one checkpoint to the next, more than there can be would have waited.
        first = mid = j.found_mid
        seq = j.found_seq
        step = max(1, _ALL_IDS // (j._size // OVERHEAD))
        left = (j._head - at // j._size) % j._n
        while True:
            left -= step
            if left < 0:
                last = j.next_seq - 1
                last_mid = j.last_mid
            else:
                kind = j._parse((j._head - left) % j._n * j._size + HEADER)
                if kind != NOTE or j.found_len < CHECKPOINT:
                    return 0
                last = j.found_seq
                last_mid = j.found_mid
            if not 0 <= last - seq <= _ALL_IDS or (last_mid - mid) % 65535 != last - seq:
                return 0
            if left < 0:
                return first
            seq = last
            mid = last_mid

    def _count(self, j, used, messages):
        # One sector more is counted.
        self._used -= used
        self._live -= messages
        self.uncounted -= 1
        if not self.uncounted:
            j.used -= self._used
            j.live -= self._live
            if hasattr(j.owner, "queued"):
                j.owner.queued -= self._live
            self._used = self._live = 0
