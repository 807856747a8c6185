"""A ring with checkpoints is mounted without reading all of it, and a mount of the whole ring is the oracle: both find
the same, whatever a power cut has left; what is damaged where the first one did not look is found later."""

from harness import CUT_STEP, EMULATED, eq, raises
from inflight.journal.journal import DONE, IN, OUT, RELEASED, SESSION, Journal
from inflight.session.drop import find_mid
from nor import NorFlash, PowerCut, after, before, mixed, noise, scattered, suffix, torn, undecided, zeros
from test_journal import RecordOwner, put

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"


def ring(blocks=16, size=512, page=64):
    flash = NorFlash(blocks, size, page)
    flash.checkpoints = True
    return flash


def copy_of(flash, checkpoints=True):
    """The same content; what reads differently at each read reads as it did first. checkpoints False: it is always
    mounted as a whole."""
    other = NorFlash(flash.blocks, flash.block_size, flash.page)
    other.data[:] = flash.data
    other.checkpoints = checkpoints
    return other


def found_in(journal):
    """All that a journal knows of its flash."""
    records = []
    for kind in (OUT, IN, SESSION):
        at = journal.scan(kind, -1)
        while at >= 0:
            n = journal.found_len
            buf = bytearray(n)
            start = journal.read(at, 0, buf)
            records.append((at, kind, journal.found_mid, journal.found_seq, journal.found_state, bytes(buf[start:])))
            at = journal.scan(kind, at)
    seqs = []
    at = journal.find(OUT, 0)
    while at >= 0:
        seqs.append(journal.found_seq)
        at = journal.find(OUT, journal.found_seq + 1)
    numbers = journal.next_seq, journal.last_mid, journal.live, journal.used, journal.erases, journal.epoch
    losses = journal.damaged, journal.skipped, journal.found_damaged, journal.found_skipped, journal.lost
    # In which sector it goes on, beside what was written there. How many are erased.
    more = [journal.append(IN, 1, b"", 0) // 512]
    while journal.collect():
        more.append(0)
    return records, seqs, numbers, losses, more


tried = {}


def is_quick(flash):
    """Mounts copies of the flash both ways, and compares what they find. Returns True if the first one did not read
    all."""
    journal = Journal(copy_of(flash))
    unread = journal.unread
    used, live, uncounted = journal.used, journal.live, journal.checkpoints.uncounted
    found = found_in(journal)
    eq(found, found_in(Journal(copy_of(flash, False))))
    assert live >= found[2][2] and used >= found[2][3]
    if not uncounted:
        eq((live, used), found[2][2:4])
    for key in ("both", unread > 0 and "not all read", uncounted > 0 and "not all counted"):
        tried[key] = tried.get(key, 0) + 1
    return unread > 0


def read_all(journal):
    """What a client does that has time."""
    while journal.unread:
        try:
            journal.collect()
        except OSError:
            journal.recover()


class Application:
    """Messages that end out of order, some of them never; received ids; session records; in a ring of any size."""

    def __init__(self, flash, seed, most=12, in_order=False):
        self.toss = noise(seed)
        self.most = most  # messages that wait
        self.in_order = in_order  # but for some that are dropped from the middle
        self.restart(Journal(flash))

    def restart(self, journal):
        self.journal = journal
        self.places = journal.owner = RecordOwner()
        for kind in (OUT, IN, SESSION):
            at = journal.scan(kind, -1)
            while at >= 0:
                key = kind, journal.found_mid if kind == IN else at if kind == SESSION else journal.found_seq
                self.places[key] = at
                at = journal.scan(kind, at)

    def step(self, k):
        journal, toss = self.journal, self.toss
        what = next(toss) % 16
        if what < 8:
            self.add(OUT, journal.next_seq, k, (20, 40, 9, 120)[next(toss) % 4])
        elif what == 8:
            self.add(IN, k % 65535, k, 0)
        elif what == 9:
            old = sorted(key for key in self.places if key[0] == SESSION)
            self.add(SESSION, k, k, 12)
            for key in old:
                self.mark(key, DONE)
        elif what == 10:
            journal.collect()
        elif what == 11 and self.places:
            keys = sorted(self.places)
            self.mark(keys[next(toss) % len(keys)], RELEASED)
        for kind, most in ((OUT, self.most), (IN, 3)):
            keys = sorted(key for key in self.places if key[0] == kind)
            while len(keys) > most or (keys and what == 12):
                # Mostly the oldest one; or the one behind two that are set aside.
                first = 0 if self.in_order else min(2, len(keys) - 1)
                self.mark(keys.pop(first if next(toss) % 8 else next(toss) % len(keys)), DONE)
                what = 13
        journal.commit()

    def add(self, kind, key, k, n):
        if self.journal.fits(kind, n):
            self.places[kind, key] = put(self.journal, k, n, kind)

    def mark(self, key, state):
        self.journal.mark(self.places[key], state)
        if state == DONE:
            del self.places[key]


def at_operations(flash, every, work, look):
    """Calls look(number, copy of the flash, operation) before every so many operations of work()."""
    number = 0

    def watch(name, at, old, new):
        nonlocal number
        number += 1
        if number % every == 0:
            look(number, copy_of(flash), (name, at, old, new))

    flash.watch = watch
    work()
    flash.watch = None


def test_both_mounts_agree_at_every_cut():
    """Before, within and after each program and erase, in rings of several sizes, once around."""
    ways = (before, after, zeros, torn(3, 0xA5), torn(40, 0xFF), suffix(20, 0xFF), scattered(5), mixed(7), mixed(8))
    quick = tried = 0

    def look(number, flash, operation):
        nonlocal quick, tried
        name, at, old, new = operation
        way = ways[number // (3 * CUT_STEP) % len(ways)]
        if way is zeros and name != "erase":
            way = scattered(number)
        flash.overwrite(at, old, way(old, new))
        quick += is_quick(flash)
        tried += 1

    def work():
        for k in range(1000, 1200):
            life.step(k)

    rings = ((16, 512, 64, 12), (24, 512, 4, 12), (16, 1024, 256, 12), (40, 512, 64, 90), (32, 512, 4, 70))
    for number, (blocks, size, page, most) in enumerate(rings):
        flash = ring(blocks, size, page)
        life = Application(flash, number, most, most > 12)
        k = 0
        while min(flash.erases) < 2:
            k += 1
            life.step(k)
        at_operations(flash, 3 * CUT_STEP, work, look)
    assert quick > tried * 0.8, (quick, tried)


def test_bits_that_read_differently_at_each_read():
    """Two mounts agree, whether they read the whole ring or not, and the journal goes on."""

    def look(number, flash, operation):
        _, at, old, new = operation
        flash.overwrite(at, old, undecided(number)(old, new))
        journal = Journal(flash)
        read_all(journal)
        eq((journal.damaged, journal.lost), (0, []))
        found = found_in(Journal(copy_of(flash)))
        eq(found_in(Journal(copy_of(flash, False))), found)
        other = Application(flash, number, life.most, life.in_order)
        for k in range(20):
            other.step(k)
        is_quick(flash)

    def look_at_checkpoints(number, flash, operation):
        # The last checkpoint may not read as one at first.
        name, at, old, new = operation
        if name == "program" and at % 512 < 128:
            for seed in range(0, 30, CUT_STEP):
                copy = copy_of(flash)
                copy.overwrite(at, old, undecided(seed)(old, new))
                journal = Journal(copy)
                most = journal.live, journal.used
                found_in(journal)  # which appends a received id
                assert journal.live <= most[0] and journal.used <= most[1] + 15

    def work():
        for k in range(1000, 1100):
            life.step(k)

    for blocks, most in ((16, 12), (40, 90)):
        flash = ring(blocks, 512, 64)
        life = Application(flash, 3, most, most > 12)
        for k in range(500):
            life.step(k)
        at_operations(flash, 2 * CUT_STEP, work, look)
        at_operations(flash, 1, work, look_at_checkpoints)


def test_a_mark_that_reads_differently_at_each_read():
    """In a sector that a start does not count: whoever gets there first decides it, and each start agrees with that."""
    for seed in range(0, 60, CUT_STEP):
        flash = NorFlash(40, 512, 64, seed=seed)
        flash.checkpoints = True
        journal = Journal(flash)
        places = []
        while min(flash.erases) < 2 or len(places) < 80:
            places.append((journal.next_seq, put(journal, 1)))
            if len(places) > 80:
                journal.mark(places.pop(0)[1], DONE)
        seq, at = places[40]
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


def waiting(journal, flash, most):
    """Messages go around, and so many wait. Returns their addresses."""
    places = []
    while min(flash.erases) < 2 or len(places) < most:
        places.append(put(journal, journal.next_seq % 100))
        if len(places) > most:
            journal.mark(places.pop(0), DONE)
    return places


def test_the_last_record_reads_as_it_was_first():
    """It counts or does not: another read does not find it gone."""
    flash = Wavering(40, 512, 64)
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
    flash = Wavering(40, 512, 64)
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
        eq(len(found_in(journal)[1]), live)
        eq((journal.live, journal.used), (live, used + 15))  # and a received id, which that appends


def test_a_checkpoint_is_durable_before_the_record_behind_it():
    """Else that one would stand behind damage, and numbers be passed over."""
    for k in range(0, 300, CUT_STEP):
        flash = NorFlash(16, 512, 64, cache=True)
        flash.checkpoints = True
        life = Application(flash, k)
        flash.cut_at(100 + k, before, k)
        try:
            for step in range(200):
                life.step(step)
        except PowerCut:
            flash.power_on()
        journal = Journal(flash)
        eq((journal.damaged, journal.lost, journal.skipped), (0, [], 0))


def test_power_cuts_in_a_row():
    """Within the work, the mounts, and what a client does when it has time."""
    quick = tried = 0
    for seed in range(0, 40, CUT_STEP):
        flash = ring((16, 40)[seed % 2], 512, (4, 64)[seed // 2 % 2])
        cuts = noise(seed)
        life = Application(flash, seed, (12, 90)[seed % 2], seed % 2)
        for k in range(400):
            life.step(k)
        for _ in range(20):
            way = (before, after, torn(next(cuts) % 64, 0x5A), mixed(next(cuts)), scattered(next(cuts)))
            flash.cut_at(next(cuts) % (12 if next(cuts) & 1 else 120), way[next(cuts) % 5])
            try:
                life.restart(Journal(flash))
                for k in range(60):
                    life.step(k)
            except PowerCut:
                pass
            flash.power_on()
            quick += is_quick(flash)
            tried += 1
    assert quick > tried * 0.7, (quick, tried)


def test_damage_is_found_when_there_is_time():
    """Bits flip anywhere. What a mount did not read it does not know, but it does not go on without it: when all is
    read, everything is as a mount of the whole ring finds it at once."""
    flash = ring(24, 512, 64)
    life = Application(flash, 9)
    k = 0
    while min(flash.erases) < 3:
        k += 1
        life.step(k)
    image = flash.snapshot()
    given = life.journal.next_seq
    late = 0
    for seed in range(0, 400, CUT_STEP):
        toss = noise(seed)
        flash.restore(image)
        for _ in range(1 + seed % 3):
            at = next(toss) * 4096 + next(toss)
            flash.data[at % len(image)] ^= 1 << next(toss) % 8
        whole = Journal(copy_of(flash, False))
        journal = Journal(flash)
        late += journal.damaged < whole.damaged
        assert given <= journal.next_seq <= whole.next_seq
        read_all(journal)
        for other in (journal, Journal(flash)):
            eq((other.damaged, other.skipped, other.next_seq), (whole.damaged, whole.skipped, whole.next_seq))
            eq(found_in(Journal(copy_of(flash, False)))[:2], found_in(Journal(copy_of(flash)))[:2])
        eq([r[1:] for r in found_in(journal)[0]], [r[1:] for r in found_in(whole)[0]])
    assert late


def test_a_lost_sector():
    """It reads blank, as noise, or as it was long ago: no number is given twice, and its loss is counted."""
    for in_order in (False, True):
        flash = ring(40, 512, 64)
        life = Application(flash, 4, 90 if in_order else 12, in_order)
        k = 0
        while min(flash.erases) < 2:
            k += 1
            life.step(k)
        early = flash.snapshot()
        while min(flash.erases) < 4:
            k += 1
            life.step(k)
        image = flash.snapshot()
        given = life.journal.next_seq
        toss = noise(5)
        garbage = bytes(next(toss) & 255 for _ in range(512))
        for at in range(0, 40 * 512, 512 * CUT_STEP):
            for content in (b"\xff" * 512, garbage, early[at : at + 512]):
                flash.restore(image)
                flash.data[at : at + 512] = content
                whole = Journal(copy_of(flash, False))
                journal = Journal(flash)
                assert journal.next_seq >= given, at
                read_all(journal)
                eq((journal.damaged, journal.next_seq >= given), (whole.damaged, True))
                eq([r[1:] for r in found_in(journal)[0]], [r[1:] for r in found_in(whole)[0]])


def test_no_live_message_is_erased_since_a_checkpoint_did_not_know_it():
    """A mark has rotted away, in a sector that the mount did not read."""
    flash = ring(16, 512, 64)
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


def test_what_a_checkpoint_says_is_used_no_longer_than_it_is_true():
    """It is written when a sector is opened, and when the client has time and many messages were completed. Without
    those the whole ring is read."""
    flash = ring(32, 512, 64)
    journal = Journal(flash)
    live = []
    while min(flash.erases) < 2:
        live.append(put(journal, len(live)))
        if len(live) > 60:
            journal.mark(live.pop(0), DONE)

    def reads():
        copy = copy_of(flash)
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
    is_quick(flash)


def test_a_ring_that_an_older_library_has_written():
    """It has no checkpoints, and gets them; an older library passes them by."""
    flash = ring(16, 512, 64)
    flash.checkpoints = False
    journal = Journal(flash)
    live = []
    while min(flash.erases) < 2:
        live.append(put(journal, len(live)))
        if len(live) > 5:
            journal.mark(live.pop(0), DONE)
    flash.checkpoints = True
    eq(is_quick(flash), False)
    journal = Journal(flash)
    journal.owner = None
    for k in range(40):
        journal.mark(put(journal, k), DONE)
    eq(is_quick(flash), True)
    flash.checkpoints = False
    journal = Journal(flash)
    while min(flash.erases) < 4:
        journal.mark(put(journal, 0), DONE)
    flash.checkpoints = True
    is_quick(flash)


def test_records_as_long_as_a_sector():
    """A sector that such a one begins has no checkpoint: the one before it has."""
    flash = ring(16, 512, 64)
    journal = Journal(flash)
    while min(flash.erases) < 3:
        at = put(journal, 0, journal.largest)
        is_quick(flash)
        journal.mark(at, DONE)
        journal.mark(put(journal, 1), DONE)
        is_quick(flash)


def test_damaged_checkpoints_cost_time_only():
    flash = ring(16, 512, 64)
    life = Application(flash, 1)
    for k in range(400):
        life.step(k)
    image = flash.snapshot()
    for sector in range(16):
        for at in range(24, 70, 5 * CUT_STEP):
            flash.restore(image)
            flash.data[sector * 512 + at] ^= 0x10
            expected = Journal(copy_of(flash, False))
            journal = Journal(copy_of(flash))
            read_all(journal)
            eq((journal.damaged, journal.next_seq), (expected.damaged, expected.next_seq))
            eq(found_in(journal)[1], found_in(expected)[1])


def test_a_journal_without_messages():
    """Received ids alone have no number that a checkpoint could tell."""
    flash = ring(16, 512, 64)
    journal = Journal(flash)
    is_quick(flash)
    while min(flash.erases) < 3:
        journal.mark(put(journal, 1, 0, IN), DONE)
        journal.collect()
    is_quick(flash)


def test_smallest_rings():
    for blocks in (3, 4, 5):
        flash = ring(blocks, 1024, 64)
        life = Application(flash, blocks, 4)
        for k in range(60 if EMULATED else 300):
            life.step(k)
            if k % 3 == 0:
                is_quick(flash)


def test_a_mount_that_gives_up_changes_nothing_that_counts():
    """It may have begun to finish what a power cut left."""
    flash = ring(16, 512, 64)
    life = Application(flash, 2)
    for k in range(300):
        life.step(k)
    expected = found_in(Journal(copy_of(flash, False)))
    flash.data[(life.journal.erases + 3) % 16 * 512 + 12] ^= 1  # a header
    k = 0
    image = flash.snapshot()
    while True:
        flash.restore(image)
        flash.cut_at(k, after)
        try:
            Journal(flash)
            break
        except PowerCut:
            pass
        flash.power_on()
        eq(found_in(Journal(flash))[:3], expected[:3])
        k += 1
    raises(ValueError, Journal, NorFlash(8, 1024, 64) if flash is None else _other(flash))


def _other(flash):
    other = NorFlash(8, 1024, 64)
    other.data[:] = flash.data
    other.checkpoints = True
    return other


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
            at = find_mid(journal, mid)
            eq(journal.found_seq if at >= 0 else -1, max([s for s in seqs if live[s][0] == mid] or [-1]))
            used = min([((live[s][0] - mid) % 65535, live[s][0]) for s in seqs] or [(0, 0)])[1]
            eq(journal.next_used(mid), used)

    for seed in range(0, 12, CUT_STEP):
        toss = noise(seed)
        flash = ring(40, 512, 64)
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
                compare(Journal(copy_of(flash)))
