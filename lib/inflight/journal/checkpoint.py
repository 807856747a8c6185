# What a ring of more than 64 KiB keeps beside its records, so that a mount need not read all of them: see quick. It is
# loaded for such a ring only.

from array import array
from struct import pack_into

from ..compat import const
from .pages import CHUNK
from .records import CHECKPOINT, DONE, HEADER, IN, LOSSES, NOTE, OUT, OVERHEAD, SESSION

_MOST = const(24)  # sectors that a checkpoint names
_BEHIND = const(2)  # a mount reads so many sectors more, at most, than it would with a new checkpoint
_KINDS = (OUT, IN, SESSION, NOTE)


class Checkpoints:
    """Those of a journal of n sectors. Sectors are told by their sequence numbers: that of the tail is j.erases - n."""

    def __init__(self, n):
        self.others = array("H", bytes(2 * n))  # bytes of live records in each sector that are no OUT
        self._body = bytearray(CHECKPOINT + 2 * _MOST)
        self.begin()

    def begin(self):
        """A mount begins. Until it ends none is written: what the journal knows is not all of it."""
        self.ready = False
        self._first = self._first_other = 0  # no sector before these has a live OUT, or another live record
        self._written = 0  # the first one when the last checkpoint was written
        for i in range(len(self.others)):
            self.others[i] = 0

    def has_read(self, first):
        """The mount has read all sectors from the number `first` on, and found nothing alive to be before it."""
        self._first = self._written = first

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
                j._sync()
                j.failed = False
                return
        if idle and j.unread:
            self.check(j, (j.erases - j._n + j.unread - 1) % j._n)
            j.unread -= 1

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
        first = self._first_out(j)
        i = max(self._first_other, j.erases - n)
        while i < first and not self.others[i % n]:
            i += 1
        self._first_other = i
        left = j._others
        end = CHECKPOINT
        while i < first and left:
            if self.others[i % n]:
                if end == len(body):
                    first = i
                    break
                pack_into("<H", body, end, i % n)
                end += 2
                left -= self.others[i % n]
            i += 1
        newest = j._newest // size & 0xFFFF  # -1: there is none
        noted = j._noted // size & 0xFFFF
        pack_into("<IIBHHH", body, 0, j.damaged, j.skipped, 0, newest, noted, first % n)
        return end

    def _write(self, j, n):
        newest = j._newest  # two NOTEs, or an OUT, tell the number; if this one is lost, they are still there
        j._append(NOTE, j.last_mid, self._body, n, b"", b"", 0)
        j._newest = newest
        self._written = self._first

    def check(self, j, sector):
        """Reads all records of a sector of which a checkpoint told what is live. Fails if one is damaged, or live and
        not known: the mount that follows reads the whole ring."""
        size = j._size
        at = sector * size
        end = at + size
        h = self._body
        j._read(at, h)
        number = h[8] | h[9] << 8 | h[10] << 16 | h[11] << 24
        right = number % j._n == sector and j.erases - j._n <= number < j.erases
        for i in range(8):
            right = right and (i == LOSSES or h[i] == j._identity[i]) and h[12 + i] == j._identity[8 + i]
        at += HEADER
        live = others = 0
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
            if j._state(at) != DONE:
                live += n
                if kind != OUT:
                    others += n
            at += n
        while right and at < end:  # behind them nothing was programmed
            start = min(at, end - CHUNK)
            j._read(start, j._chunk)
            for i in range(at - start, CHUNK):
                b = j._chunk[i]
                right = right and (b == 0xFF or not b & b - 1)
            at = start + CHUNK
        if not right or live != j._live[sector] or others != self.others[sector]:
            j._fail("a sector of the journal is not what was noted of it")
