"""A start of a ring with checkpoints reads a part of it. Whatever stands where it ought not to, it gives up or finds
what the mount of the whole ring finds, at once or as soon as the rest is read. (test_journal_faults.py cuts the power.)
"""

import struct
import sys
from binascii import crc32

from account import Account, both_mounts_agree, copy_of, in_order, quick_crc, read_all, records
from faults import cuts, outcome
from harness import CUT_STEP, eq, raises
from inflight.journal.journal import DONE, IN, OUT, SESSION, Journal
from inflight.session.session import Session
from nor import NorFlash, PowerCut, before, noise
from ring import end, erased, head, tail
from test_journal import RecordOwner, put

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"
SIZE = 512

MICRO = sys.implementation.name == "micropython"  # takes ten times as long
if not MICRO:
    quick_crc()


def ring(blocks=16, page=64):
    flash = NorFlash(blocks, SIZE, page)
    flash.checkpoints = True
    return flash


def found_in(journal):
    """Live records without their addresses, and all numbers that a mount tells."""
    return sorted([found[:5] for found in records(journal, (OUT, IN, SESSION))]), journal.live, journal.used


def found_at_once(journal):
    try:
        return found_in(journal)
    except OSError:  # in a sector of messages that wait, which the mount did not read
        journal.recover()
        return found_in(journal)


class Life:
    """A journal that goes around; so many messages wait, a few received ids and records of a session are older."""

    def __init__(self, flash, waiting):
        self.flash, self.waiting = flash, waiting
        self.journal = Journal(flash)
        self.places = self.journal.owner = RecordOwner()
        self.k = 0

    def has_live(self, sector):
        return any(at // SIZE == sector for at in self.places.values())

    def go_on(self, laps):
        old = ("old", 0) in self.places
        while min(self.flash.erases) <= laps or (old and not self.has_live(tail(self.flash))):
            self.k = k = self.k + 1
            self.add(OUT, 40, self.waiting)
            if k % 25 == 0:
                self.add(IN, 0, 2)
                self.add(SESSION, 12, 2)
            self.journal.commit()
        while self.journal.collect():  # else the next one erases the oldest sector before the others are read
            pass
        return self.flash.snapshot()

    def add(self, kind, n, most):
        self.places[kind, self.k] = put(self.journal, self.k, n, kind)
        mine = sorted(key for key in self.places if key[0] == kind)
        if len(mine) > most:
            self.journal.mark(self.places.pop(mine[0]), DONE)


def waiting(journal, flash, most):
    """Messages go around, and so many wait. Returns their addresses."""
    places = []
    while min(flash.erases) < 2 or len(places) < most:
        places.append(put(journal, journal.next_seq % 100))
        if len(places) > most:
            journal.mark(places.pop(0), DONE)
    return places


def lose_one(flash):
    """A message that is counted from now on."""
    journal = Journal(flash)
    at = put(journal, 1)
    journal.mark(put(journal, 2), DONE)
    journal.commit()
    flash.data[at + 20] ^= 1
    eq(Journal(flash).damaged, 1)


def sector_of_next(journal):
    """Where a message goes."""
    try:
        at = put(journal, 7)
    except OSError:  # a sector that was not read is about to be erased, and is damaged
        journal.recover()
        at = put(journal, 7)
    return at // SIZE


def agrees(flash, given, what, intact, blank):
    """Both mounts find the same, give no sequence number again, and go on. Returns True if not all was read. blank: the
    sector was erased ahead, and does not come next: it may go on in another one then."""
    whole = Journal(copy_of(flash))
    other = Journal(copy_of(flash, True))
    eq((what, found_at_once(other)[0]), (what, found_in(whole)[0]))
    if not blank:
        eq((what, sector_of_next(other)), (what, sector_of_next(Journal(copy_of(flash)))))
    flash = copy_of(flash, True)
    journal = Journal(flash)
    quick = journal.unread > 0
    assert min(journal.next_seq, whole.next_seq) >= given, (what, journal.next_seq, whole.next_seq, given)
    read_all(journal)
    for other in (journal, whole):
        at = put(other, 7)  # goes where nobody takes it for something else
        other.commit()
        other.mark(at, DONE)
    wanted = found_in(whole)
    for other in (journal, Journal(flash), Journal(copy_of(flash))):
        read_all(other)
        found = found_in(other)
        eq((what, found), (what, wanted))
        # An erased sector may be as it was when it was the oldest one: then it is taken for that.
        early = "lap before" in str(what) and found[0] == intact
        assert other.damaged == whole.damaged or early, (what, other.damaged)
    return quick


def garbage(n):
    toss = noise(5)
    return bytes(next(toss) & 255 for _ in range(n))


def other_secret(header):
    """What another journal had there."""
    return header[:16] + b"else" + struct.pack("<I", crc32(header[:16] + b"else"))


# First byte, end; what stands there instead: with another bit, or what this makes of it and of the lap before.
SPOILT = {
    "a bit of its number": (8, 9, None),
    "a bit of its secret": (17, 18, None),
    "a bit of its CRC": (22, 23, None),
    "a bit of its first record's header": (26, 27, None),
    "a bit of its first record": (40, 41, None),
    "a bit of a record": (200, 201, None),
    "bits at its end": (SIZE - 4, SIZE - 3, lambda now, early: b"Z"),
    "blank": (0, SIZE, lambda now, early: b"\xff" * SIZE),
    "noise": (0, SIZE, lambda now, early: garbage(SIZE)),
    "as it was in the lap before": (0, SIZE, lambda now, early: early),
    "header zero": (0, 24, lambda now, early: bytes(24)),
    "header noise": (0, 24, lambda now, early: garbage(24)),
    "header of the lap before": (0, 24, lambda now, early: early),
    "header of another journal": (0, 24, lambda now, early: other_secret(now)),
}


def test_any_sector_is_spoilt():
    for waiting in (3, 40):
        flash = ring(14)
        life = Life(flash, waiting)
        early = life.go_on(2)
        image = life.go_on(3)
        newest, ahead_of_it = head(flash), erased(flash)
        given = life.journal.next_seq
        intact = found_in(life.journal)[0]
        both_mounts_agree(flash)
        quick = 0
        for sector in range(14):
            ahead = (sector - newest) % 14
            blank = 1 < ahead <= ahead_of_it
            step = 1 if ahead <= ahead_of_it + 1 else 2  # more from the head to the oldest one
            rows = sorted(SPOILT.items())[(sector + waiting) % step :: 5 * step if MICRO else step]
            for what, (first, behind, make) in rows:
                flash.restore(image)
                at, behind = sector * SIZE + first, sector * SIZE + behind
                flash.data[at:behind] = make(image[at:behind], early[at:behind]) if make else bytes((image[at] ^ 4,))
                quick += agrees(flash, given, (waiting, sector, what), intact, blank)
        assert quick > 10, quick


def test_the_header_of_the_oldest_sector_is_damaged():
    """A message lives there, which stays."""
    flash = ring()
    life = Life(flash, 3)
    life.places["old", 0] = put(life.journal, 1)
    image = life.go_on(2)
    oldest = tail(flash)
    for at in (8, 17, 22):
        flash.restore(image)
        flash.data[oldest * SIZE + at] ^= 4
        agrees(flash, life.journal.next_seq, (3, oldest, at), None, False)
        eq(found_at_once(Journal(flash))[1], 4)


def test_damage_that_a_start_meets():
    """All damage is looked for then. Two headers that are lost are none of an erase that was cut short."""
    flash = ring()
    life = Life(flash, 3)
    life.go_on(2)
    for at in (tail(flash) * SIZE, (tail(flash) + 1) % 16 * SIZE):
        flash.data[at : at + 24] = bytes(24)
    both_mounts_agree(flash)
    eq(Journal(flash).found_damaged, 1)
    flash = ring()
    life = Life(flash, 3)
    while min(flash.erases) < 2 or end(flash) % SIZE < 400:
        life.add(OUT, 40, 3)
        life.k += 1
    for sector in (head(flash), tail(flash) + 4):
        flash.data[sector % 16 * SIZE + 200] ^= 4
    eq(Journal(flash).damaged, 2)


def test_what_was_lost_is_never_forgotten():
    """NOTEs tell it, which stand in a sector that a start need not read, and are erased some time."""
    flash = ring()
    lose_one(flash)
    while min(flash.erases) < 6:
        journal = Journal(flash)
        eq(journal.damaged, 1)
        both_mounts_agree(flash)
        for k in range(12):
            journal.mark(put(journal, k), DONE)


def test_a_mark_that_reads_differently_at_each_read():
    """In a sector that a start does not count: whoever gets there first decides it, and each start agrees with that."""
    for seed in range(0, 60, CUT_STEP):
        flash = NorFlash(40, 512, 64, seed=seed)
        flash.checkpoints = True
        journal = Journal(flash)
        at = waiting(journal, flash, 80)[40]
        seq = journal.next_seq - 40
        flash.undecided[at + 54] = (0x0F, 0xF0, 0x07, 0xE0, 0x0E, 0x03)[seed % 6]
        states = []
        for _ in range(5):
            flash.power_on()
            journal = Journal(flash)
            assert journal.checkpoints.uncounted > 4
            found = journal.find(OUT, seq)
            states.append(journal.found_state if journal.found_seq == seq else DONE)
            eq(journal.find(OUT, seq), found)
        eq(states, states[:1] * 5)


class Wavering(NorFlash):
    """The bit `mask` of the byte at `at` was just cleared when power was cut. It reads 1 in those reads that `late`
    tells, until it is programmed once more."""

    mask = 0

    def waver(self, at, late):
        self.at, self.late, self.seen = at, late, 0
        self.mask = ~self.data[at] & self.data[at] + 1  # the lowest one
        assert self.mask < 256
        self.data[at] |= self.mask

    def readblocks(self, block, buf, offset=0):
        super().readblocks(block, buf, offset)
        i = self._place(block, offset, len(buf))
        if i >= 0:
            buf[i] &= 255 if self.late(self.seen) else ~self.mask
            self.seen += 1

    def writeblocks(self, block, buf, offset=0):
        super().writeblocks(block, buf, offset)
        i = self._place(block, offset, len(buf))
        if i >= 0 and not buf[i] & self.mask:
            self.mask = 0

    def _place(self, block, offset, n):
        i = self.at - block * self.block_size - offset if self.mask else -1
        return i if i < n else -1


def test_the_last_record_reads_as_it_was_first():
    """It counts or does not: another read does not find it gone."""
    flash = Wavering(40)
    flash.checkpoints = True
    at = waiting(Journal(flash), flash, 80)[-1]
    image = flash.snapshot()
    whole = 0
    for k in range(1, 40):
        flash.restore(image)
        flash.waver(at + 10 + k % 3, lambda n: n >= k)
        journal = Journal(flash)
        if journal.next_seq and journal.find(OUT, journal.next_seq - 1) == at:
            whole += 1
            for _ in range(5):
                journal.check(at)
    assert whole


def test_the_last_checkpoint_is_none_at_first():
    """What it tells counts then, or that of the one before, not a part of each."""
    flash = Wavering(40)
    flash.checkpoints = True
    journal = Journal(flash)
    waiting(journal, flash, 80)
    head = journal.erases
    while journal.erases == head:
        put(journal, 1)
    at = put(journal, 1) // 512 * 512 + 24
    live, used = journal.live, journal.used
    image = flash.snapshot()
    for k in range(1, 40):
        flash.restore(image)
        flash.waver(at + 12 + k % 3, lambda n: n < k)
        journal = Journal(flash)
        assert journal.live >= live and journal.used >= used
        eq(len(in_order(journal)), live)
        eq((journal.live, journal.used), (live, used))


def test_a_checkpoint_is_durable_before_the_record_behind_it():
    """Else that one would stand behind damage."""
    flash = NorFlash(16, 512, 64, cache=True)
    flash.checkpoints = True
    journal = Journal(flash)
    for k in range(20):
        put(journal, k)
    journal.commit()
    image = flash.snapshot()
    for seed in range(8):
        for cut in range(30):  # some of them open a sector
            flash.restore(image)
            journal = Journal(flash)
            flash.cut_at(cut, before, seed)
            try:
                for k in range(20, 29):
                    put(journal, k)
                    journal.mark(journal.find(OUT, 0), DONE)
                    journal.commit()
            except PowerCut:
                pass
            flash.power_on()
            eq(Journal(flash).damaged, 0)


def test_no_live_message_is_erased_since_a_checkpoint_did_not_know_it():
    """A mark has rotted away, in a sector that the mount did not read."""
    flash = ring()
    journal = Journal(flash)
    places = []
    while min(flash.erases) < 2:
        places.append(put(journal, len(places)))
        journal.mark(places[-1], DONE)
    at = places[-60]
    state = at + 10 + 40 + 4
    eq(flash.data[state], 0xF0)
    flash.data[state] = 0xFF
    journal = Journal(flash)
    eq(journal.live, 0)
    failures = 0
    for k in range(100):
        try:
            journal.mark(put(journal, k), DONE)
        except OSError:
            journal.recover()
            failures += 1
            eq(journal.live, 1)
    eq((failures, journal.live), (1, 1))
    eq(journal.find(OUT, 0) >= 0 and journal.found_mid, len(places) - 60)


def test_a_received_id_is_counted_although_a_checkpoint_did_not_know_it():
    """Its mark has rotted away, among messages that wait."""
    flash = ring(40)
    journal = Journal(flash)
    places = []
    while min(flash.erases) < 2 or len(places) < 80:
        places.append(put(journal, 1))
        if len(places) > 80:
            journal.mark(places.pop(0), DONE)
        if journal.next_seq % 40 == 0:
            at = put(journal, 1, 0, IN)
            journal.mark(at, DONE)
    eq(flash.data[at + 14], 0xF0)
    flash.data[at + 14] = 0xFF
    journal = Journal(flash)
    assert journal.checkpoints.uncounted
    read_all(journal)
    eq(found_in(journal), found_in(Journal(copy_of(flash))))
    eq(journal.scan(IN, -1) >= 0, True)


def test_an_error_in_a_start():
    """The mount of the whole ring follows. What power has cut short in the last message is no damage to it."""
    flash = ring()
    life = Life(flash, 5)
    life.go_on(2)
    at = put(life.journal, 1)
    crc = int.from_bytes(flash.data[at + 50 : at + 54], "little")  # another one in every ring: its lowest 0 is missing
    flash.data[at + 50 : at + 54] = (crc | crc + 1).to_bytes(4, "little")
    image = flash.snapshot()
    for kind in ("read", "program"):
        k = 0
        came = True
        while came:
            flash.restore(image)
            flash.fail_at(k, kind)
            journal = Journal(flash)
            came = not flash.fail_at(-1, kind)
            eq((kind, k, journal.damaged, journal.found_damaged, journal.live), (kind, k, 0, 0, 5))
            k += 1
        assert k > 5


def test_what_a_checkpoint_says_is_used_no_longer_than_it_is_true():
    """It is written when a sector is opened, and when the client has time and many messages were completed. Without
    those the whole ring is read."""
    flash = ring(32)
    journal = Journal(flash)
    live = waiting(journal, flash, 60)

    def reads():
        copy = copy_of(flash, True)
        Journal(copy)
        return copy.reads

    few = reads()
    for at in live[:-2]:
        journal.mark(at, DONE)
    many = reads()
    while journal.collect():
        pass
    journal.collect()
    assert reads() < few + 5 < many - 30, (few, many, reads())
    both_mounts_agree(flash)


def test_no_checkpoint_takes_the_space_of_copies():
    """The last erased sector takes all records of one without a dead byte."""
    flash = ring()
    journal = Journal(flash)
    old = journal.owner = RecordOwner()
    for k in range(9):
        old[k] = put(journal, k, 40 if k < 8 else SIZE - 24 - 8 * 55 - 15)
    while min(flash.erases) < 4:
        journal.mark(put(journal, 9), DONE)
    eq((journal.live, len(in_order(Journal(flash)))), (9, 9))


def test_no_checkpoint_before_a_mount_is_through():
    """Behind a record that was cut short at a sector's end the next sector begins with NOTEs: where power is cut again,
    a checkpoint in front of them would be all that tells of its number, and the mount of the whole ring reads none."""
    life = Account(ring(), 3, True)
    for k in range(300):
        life.mark(life.append(OUT, 46), DONE)
        if k > 200 and 61 <= -end(life.flash) % SIZE < 61 + 48:
            break
    assert life.journal.collect()  # with one sector erased there is no checkpoint
    life.flash.cut_at(1, outcome(["torn", -2, 0x5A]))  # within its CRC
    raises(PowerCut, life.append, OUT, 46)
    life.flash.power_on()
    assert len(list(cuts(life, Account.restart, lambda *_: (["after"],)))) > 5


def test_what_a_checkpoint_tells_stands_elsewhere():
    """Without them a start finds the same; and it adds nothing where they are."""
    for restarts in (False, True):
        for lost in (False, True):
            flash = ring()
            journal = Journal(flash)
            journal.mark(put(journal, 1), DONE)
            if lost:
                lose_one(flash)
                journal = Journal(flash)
            for k in range(700):
                journal.mark(put(journal, k, 0, IN), DONE)
                if restarts and k % 40 == 20:
                    behind = end(flash)
                    journal = Journal(flash)
                    eq(end(flash), behind)
            other = copy_of(flash)
            for at in range(24, len(other.data), SIZE):
                if other.data[at] == 9 and other.data[at + 1] >= 22:
                    n = other.data[at + 1] + 15
                    other.data[at : at + n] = bytes(n)
            found = Journal(other)
            eq((found.next_seq, found.damaged, found.skipped), (journal.next_seq, journal.damaged, journal.skipped))


def test_messages_that_stand_out_of_order():
    """The oldest one was copied among others that wait, which stand in several sectors: also behind a checkpoint."""
    for blocks, apart in ((16, 10), (40, 1)):
        flash = ring(blocks)
        journal = Journal(flash)
        places = journal.owner = RecordOwner()
        places[0] = put(journal, 0)
        for k in range(1, 500):
            places[k] = put(journal, k)
            if k % apart:
                journal.mark(places.pop(k), DONE)
            elif k > 80:
                journal.mark(places.pop(k - 80), DONE)
            if k % 9 == 0 and k > 120 and (apart > 1 or min(flash.erases) > 1):
                both_mounts_agree(flash)


def test_copies_beside_their_originals():
    """Power is cut before an original is marked, or its sector erased: one of them counts."""
    flash = ring()
    journal = Journal(flash)
    places = journal.owner = RecordOwner()
    for kind in (OUT, IN, SESSION):
        places[-kind] = put(journal, kind, 9, kind)
    quick = []

    def look(name, at, old, new):
        if at // SIZE == journal._tail() and name == "program" and at % SIZE:  # a mark of an original
            quick.append(both_mounts_agree(flash))

    flash.watch = look
    k = 0
    while min(flash.erases) < 4:
        places[k] = put(journal, k)
        if k > 20:
            journal.mark(places.pop(k - 20), DONE)
        k += 1
    assert len(quick) > 5, quick


def test_a_journal_without_messages():
    """Received ids alone have no number that a checkpoint could tell."""
    flash = ring()
    journal = Journal(flash)
    both_mounts_agree(flash)
    while min(flash.erases) < 3:
        journal.mark(put(journal, 1, 0, IN), DONE)
        journal.collect()
    both_mounts_agree(flash)


class _Finder(Session):
    """It looks for messages of a journal that is not its own."""

    def __init__(self, journal):
        self.journal = journal


def test_a_message_is_found_by_its_number_and_by_its_id():
    """Wherever it stands, with ids that wrap, and messages that were given up from the middle; also while an old one
    keeps an id from the others, and once more after a start."""

    def compare(journal):
        seqs = sorted(live)
        for _ in range(12):
            seq = max(0, journal.next_seq - next(toss) % 120)
            behind = [s for s in seqs if s >= seq]
            at = journal.find(OUT, seq)
            eq((at >= 0, journal.found_seq if at >= 0 else -1), (bool(behind), behind[0] if behind else -1))
            mid = (journal.last_mid - next(toss) % 120) % 65535 + 1
            at = _Finder(journal).find_message(mid)
            eq(journal.found_seq if at >= 0 else -1, max([s for s in seqs if live[s][0] == mid] or [-1]))
            used = min([((live[s][0] - mid) % 65535, live[s][0]) for s in seqs] or [(0, 0)])[1]
            eq(journal.next_used(mid), used)

    for seed in range(0, 12, CUT_STEP):
        toss = noise(seed)
        flash = ring(40)
        journal = Journal(flash)
        live = {}
        mid = 65300
        for step in range(600):
            if step == 300 and seed % 4 == 3:
                mid = 65290  # once around
            mid = mid % 65535 + 1
            while mid in [found[0] for found in live.values()]:
                mid = mid % 65535 + 1
            seq = journal.next_seq
            live[seq] = mid, put(journal, mid, (20, 40, 9)[next(toss) % 3])
            seqs = sorted(live)[seed % 4 == 3 :]
            if len(seqs) > 80:
                journal.mark(live.pop(seqs[0 if seed % 3 else min(next(toss) % 3, 1)])[1], DONE)
            elif seed % 2 and next(toss) % 16 == 0:
                journal.mark(live.pop(seqs[next(toss) % len(seqs)])[1], DONE)
            if step % 50 == 49:
                journal.commit()
                compare(journal)
                compare(Journal(copy_of(flash, True)))
