"""Uses a journal as a client does, and judges it: after any fault all that it promised is there once, and nothing
else. Runs on MicroPython."""

from binascii import crc32

from inflight.journal.journal import DONE, IN, OUT, RELEASED, SESSION, Journal, OutboxFull
from inflight.journal.records import ASIDE
from nor import NorFlash, noise


def body(k, n=40):
    return bytes([(k * 7 + i) & 0xFF for i in range(n)])


def records(journal, numbers=(OUT,)):
    """[(kind, Message ID, sequence number, state, body, address)] of the live records. numbers: the kinds whose number
    is told; 0 of others."""
    found = []
    for kind in (OUT, IN, SESSION):
        at = -1
        while (at := journal.scan(kind, at)) >= 0:
            n = journal.found_len
            buf = bytearray(n + 3)
            start = journal.read(at, 0, buf)
            seq = journal.found_seq if kind in numbers else 0
            # That a released one is set aside is told by a bit that DONE has, too, and a cut may leave.
            state = journal.found_state & RELEASED or journal.found_state
            found.append((kind, journal.found_mid, seq, state, bytes(buf[start : start + n]), at))
    return found


def read_all(journal):
    """What a client does that has time: it reads what a start has left out."""
    while getattr(journal, "unread", 0):
        try:
            journal.collect()
        except OSError:
            journal.recover()


def in_order(journal):
    """The sequence numbers that find() finds."""
    found = []
    at = journal.find(OUT, 0)
    while at >= 0:
        found.append(journal.found_seq)
        at = journal.find(OUT, journal.found_seq + 1)
    return found


def copy_of(flash, checkpoints=False):
    """The same content on another flash. checkpoints: a start need not read all of it."""
    other = NorFlash(flash.blocks, flash.block_size, flash.page)
    other.data[:] = flash.data
    other.low, other.stuck = flash.low, flash.stuck
    other.checkpoints = checkpoints
    return other


def both_mounts_agree(flash):
    """A start that does not read all of the flash finds what the mount of the whole ring finds. Returns whether it did
    not."""
    found = []
    for checkpoints in (False, True):
        journal = Journal(copy_of(flash, checkpoints))
        most = journal.live, journal.used
        numbers = journal.next_seq, journal.last_mid, journal.erases, journal.epoch
        losses = journal.damaged, journal.skipped, journal.found_damaged, journal.found_skipped, journal.lost
        quick = checkpoints and journal.unread > 0
        there = records(journal), in_order(journal)
        assert most[0] >= journal.live and most[1] >= journal.used
        # In which sector it goes on, beside what was written there; how many are erased.
        more = [journal.append(IN, 65535, b"", 0) // flash.block_size if journal.fits(IN, 0) else -1]
        while journal.collect():
            more.append(0)
        found.append((there, numbers, losses, journal.live, journal.used, more))
    assert found[0] == found[1], "as a whole %r, else %r" % tuple(found)
    return quick


def quick_crc(replace=setattr):
    """Makes the CRC of journals on CPython twenty times as fast; device/lib/test_journal.py tests the original.
    replace: setattr(), or that of a MonkeyPatch."""
    replace(Journal, "_sum", _quick_sum)


def _quick_sum(self, data, i, end):
    crc = crc32(data[i:end], ~(self._crc[0] | self._crc[1] << 16) & 0xFFFFFFFF) ^ 0xFFFFFFFF
    self._crc[0], self._crc[1] = crc & 0xFFFF, crc >> 16


class Account:
    """Owns the journal on `flash`. Every record has a Message ID that none had before. promised: {(kind, Message ID):
    (sequence number, state, body)} of what was committed; begun: (key, what it becomes; None: it goes), not returned.
    most: records that live at a time; in_order: they are completed in the order of their numbers."""

    def __init__(self, flash, most=5, in_order=False, start=True):
        self.flash, self.most, self.in_order = flash, most, in_order
        self.promised = {}
        self.begun = None
        self.k = 0
        self.numbers = self.skipped = 0  # the next sequence number; numbers passed over ever
        if start:
            self.use(Journal(flash))

    def copy(self):
        """The same promises: restart() comes first."""
        other = Account(self.flash, self.most, self.in_order, False)
        other.begun, other.k, other.numbers, other.skipped = self.begun, self.k, self.numbers, self.skipped
        other.promised = self.promised.copy()
        return other

    def use(self, journal):
        """Goes on with this journal of the flash, which is judged."""
        self.judge(journal)
        self.journal = journal
        journal.owner = self

    def moved(self, old, new):
        for key in self.places:
            if self.places[key] == old:
                self.places[key] = new

    def can_spare(self, at, anew=False):
        return False

    # --- what a client does ---

    def append(self, kind, n):
        """Appends a record. Returns its key, None if there is no space."""
        if not self.journal.fits(kind, n):
            return None
        self.k = k = self.k + 1
        key = kind, k
        data = body(k, n)
        i = n // 3
        self.begun = key, (self.numbers if kind == OUT else 0, 0, data)
        try:
            at = self.journal.append(kind, k, b"?" + data[:i] + b"junk", i + 1, data[i:], start=1)
        except OutboxFull:  # power cuts have left no erased sector
            self.begun = None
            return None
        self.journal.commit()
        self._finish()
        self.places[key] = at
        return key

    def mark(self, key, state):
        seq, before, data = self.promised[key]
        if state & ~before:
            self.begun = key, None if state == DONE else (seq, state, data)
            self.journal.mark(self.places[key], state)
            self.journal.commit()
            self._finish()

    def _finish(self):
        key, record = self.begun
        self.begun = None
        if not record:
            del self.promised[key]
            self.places.pop(key, None)
            return
        if key[0] == OUT and key not in self.promised:
            self.numbers = record[0] + 1
        self.promised[key] = record

    def work(self, steps=20):
        """Records of several sizes, marked in irregular order, some of them very late, so that they are copied."""
        for _ in range(steps):
            toss = noise(self.k)
            kind = (OUT, OUT, OUT, IN, OUT, OUT, SESSION)[next(toss) % 7]
            n = {OUT: (2, 20, 45, 90, 150)[next(toss) % 5], IN: 0, SESSION: 9}[kind]
            while not self.append(kind, n):
                self.mark(min(self.promised, key=lambda key: (key[0] != OUT, self.places[key])), DONE)
            keys = sorted(self.promised, key=lambda key: key[1])
            while len(keys) > self.most:
                key = keys.pop(0 if self.in_order or next(toss) % 24 == 0 else 2 + next(toss) % (len(keys) - 2))
                more = self.promised[key][1] == 0 and next(toss) & 1
                self.mark(key, (RELEASED, ASIDE)[key[1] & 1] if more else DONE)
            if next(toss) % 5 == 0:
                self.journal.collect()

    # --- what happens to it ---

    def restart(self):
        """The power was cut: a new journal is mounted, and judged."""
        if getattr(self.flash, "checkpoints", False) and not self.flash.undecided:
            both_mounts_agree(self.flash)
        journal = Journal(self.flash)
        self.use(journal)

    def failed(self):
        """An operation raised an exception: nothing is programmed before a recovery."""
        journal = self.journal
        if journal.failed:
            before = self.flash.snapshot()
            for call in (lambda: journal.append(SESSION, 9, b"", 0), journal.commit):
                try:
                    call()
                except OSError:
                    continue
                raise AssertionError("it goes on without a recovery")
            assert self.flash.snapshot() == before
        gone = self.begun[0] if self.begun and journal._begun >= 0 else None
        journal.recover()
        assert not journal.failed
        self.use(journal)
        # Who appended a message, and could not commit it, was told that it is not there.
        assert gone not in self.promised, "%r is there" % (gone,)

    def judge(self, journal):
        """Adopts the outcome of what was begun: it happened or not, and nothing else did."""
        there = records(journal)
        found = {record[:2]: record[2:5] for record in there}
        self.places = {record[:2]: record[5] for record in there}
        assert len(found) == len(there), "one is there twice: %r" % sorted(there)
        may = 0
        if self.begun:
            key, record = self.begun
            may = 1 if key[0] == OUT and key not in self.promised else 0
            there = found.get(key)
            if there == record:
                self._finish()
            elif there and key in self.promised and there[1] == ASIDE:  # RELEASED was cut short
                self.promised[key] = there
            self.begun = None
        assert found == self.promised, "found %r, promised %r" % (sorted(found), sorted(self.promised))
        assert journal.damaged == 0 and not journal.lost
        given = journal.next_seq - journal.skipped + self.skipped
        assert self.numbers <= given <= self.numbers + may, "%d, %d" % (given, self.numbers)
        self.numbers, self.skipped = journal.next_seq, journal.skipped
        ours = sorted(record[0] for key, record in found.items() if key[0] == OUT)
        assert in_order(journal) == ours
        assert journal.live == len(ours)
        assert journal.used == sum(journal.cost(len(record[2])) for record in found.values())
