"""Cuts the power at every program, every erase and every eleventh byte within them (`make crash`: every byte), and
again during the recovery. An independent oracle checks the recovered journal."""

import random

import pytest

import nor
from host_tests.thorough import more
from inflight.journal.journal import DONE, IN, OUT, RELEASED, SESSION, Journal, OutboxFull
from ring import end
from tools.crash.cutting import APART, Tape, cut

# page, sectors, sector size
RINGS = {"page-1": (1, 4, 512), "page-4": (4, 4, 512), "page-64": (64, 5, 512), "page-256": (256, 4, 512)}
STEPS = {"page-1": 65, "page-4": 75, "page-64": 75, "page-256": 75}
MASKS = (0xFF, 0xA5, 0x5A, 0x0F, 0xF0)


class Oracle:
    """The expected content of the journal: records by (kind, Message ID), which this workload uses once each."""

    def __init__(self):
        self.records = {}  # key: (seq, body, state), not DONE
        self.seqs = 0
        self.pending = None  # ("append", key, body) or ("mark", key, state): begun, not returned
        self.epoch = None

    def copy(self):
        other = Oracle()
        other.__dict__.update(self.__dict__, records=dict(self.records))
        return other

    def begin(self, *operation):
        self.pending = operation

    def finish(self):
        what, key, value = self.pending
        self.pending = None
        if what == "append":
            self.records[key] = (self.seqs if key[0] == OUT else 0, value, 0)
            self.seqs += key[0] == OUT
        elif value == DONE:
            del self.records[key]
        else:
            seq, body, _ = self.records[key]
            self.records[key] = (seq, body, value)

    def judge(self, journal, order=True):
        """Asserts that the journal has the expected content, and adopts the outcome of an interrupted call."""
        found = contents(journal)
        if self.pending:
            what, key, value = self.pending
            happened = key in found if what == "append" else key not in found or found[key][2] == value
            if happened:
                self.finish()
            self.pending = None
        assert found == self.records
        assert journal.next_seq == self.seqs + journal.found_skipped
        assert journal.damaged == 0
        self.seqs = journal.next_seq
        assert self.epoch in (None, journal.epoch)
        self.epoch = journal.epoch
        ours = sorted(seq for (kind, _), (seq, _, _) in found.items() if kind == OUT)
        assert not order or in_order(journal) == ours
        assert journal.live == len(ours)
        assert journal.used == sum(journal.cost(len(body)) for _, body, _ in found.values())


def contents(journal):
    """{(kind, Message ID): (sequence number, body, state)} of live records, in the order of scan()."""
    found = {}
    for kind in (OUT, IN, SESSION):
        at = journal.scan(kind, -1)
        while at >= 0:
            key = kind, journal.found_mid
            assert key not in found, "twice"
            seq = journal.found_seq if kind == OUT else 0  # the other kinds have no sequence number
            found[key] = seq, body_at(journal, at), journal.found_state
            at = journal.scan(kind, at)
    return found


def body_at(journal, at):
    n = journal.found_len
    buf = bytearray(n + 7)
    start = journal.read(at, 0, buf)
    return bytes(buf[start : start + n])


def in_order(journal):
    seqs = []
    at = journal.find(OUT, 0)
    while at >= 0:
        seqs.append(journal.found_seq)
        at = journal.find(OUT, journal.found_seq + 1)
    return seqs


class Player:
    """Uses a journal like the client does, and updates the oracle."""

    def __init__(self, journal, oracle):
        self.journal = journal
        self.oracle = oracle
        self.places = {}
        for kind in (OUT, IN, SESSION):
            at = journal.scan(kind, -1)
            while at >= 0:
                self.places[kind, journal.found_mid] = at
                at = journal.scan(kind, at)
        journal.owner = self

    def moved(self, old, new):
        for key, at in self.places.items():
            if at == old:
                self.places[key] = new

    def can_spare(self, at, anew=False):
        return False

    def append(self, kind, mid, n):
        body = bytes((mid * 31 + i * 7) & 0xFF for i in range(n))
        cut = n // 3
        self.oracle.begin("append", (kind, mid), body)
        try:
            at = self.journal.append(kind, mid, b"?" + body[:cut] + b"junk", cut + 1, body[cut:], start=1)
        except OutboxFull:
            self.oracle.begin()
            return False
        self.oracle.finish()
        self.places[kind, mid] = at
        return True

    def mark(self, key, state):
        self.oracle.begin("mark", key, state)
        self.journal.mark(self.places[key], state)
        self.oracle.finish()
        if state == DONE:
            del self.places[key]

    def run(self, seed, steps, first_mid):
        """Appends records of several sizes, and marks them in irregular order, some very late, so that they are
        copied."""
        dice = random.Random(seed)
        for step in range(steps):
            mid = first_mid + step
            kind = (OUT, OUT, OUT, IN, OUT, OUT, SESSION)[dice.randrange(7)]
            n = {OUT: dice.choice((2, 20, 45, 90, 150)), IN: 0, SESSION: 9}[kind]
            while not self.append(kind, mid, n):
                self.mark(min(self.places, key=lambda key: (key[0] != OUT, self.places[key])), DONE)
            while len(self.places) > dice.choice((3, 4, 6)):
                key = dice.choice(sorted(self.places)[dice.random() < 0.9 :])
                if self.oracle.records[key][2] == 0 and dice.random() < 0.5:
                    self.mark(key, RELEASED)
                else:
                    self.mark(key, DONE)
            if dice.random() < 0.2:
                self.journal.collect()


def record(flash, oracle, seed, steps, first_mid):
    """The tape of a mount and the workload after it."""
    tape = Tape(flash, oracle)
    journal = Journal(flash)
    if oracle.epoch is None:
        oracle.epoch = journal.epoch
    Player(journal, oracle).run(seed, steps, first_mid)
    return tape.stop()


def at_bytes(name, old, new, first, apart):
    """The possible outcomes of cutting one operation at bytes that are so far apart: a list of ways."""
    ways = [nor.before, nor.after]
    for b in range(first, len(old), apart):
        if old[b] != new[b]:
            mask = MASKS[b % len(MASKS)]
            ways.append(nor.suffix(b, mask) if b // apart % 3 == 0 else nor.torn(b, mask))
            if name == "program":
                ways.append(nor.torn(b, 0))
    return distinct(ways + patterns(name, 3), old, new)


def patterns(name, n):
    ways = [way(seed) for way in (nor.scattered, nor.mixed) for seed in range(n)]
    return ways + [nor.zeros] if name == "erase" else ways


def a_few(name, old, new):
    changed = [b for b in range(len(old)) if old[b] != new[b]] or [0]
    ways = [nor.before, nor.after, nor.torn(changed[len(changed) // 2], 0x5A), nor.torn(changed[0], 0xA5)]
    return distinct(ways + [nor.suffix(changed[-1], 0x3C)] + patterns(name, 1), old, new)


def distinct(ways, old, new):
    return {way(old, new): way for way in ways}.values()


def ways_of(operation, choose, *args):
    return choose(operation.name, operation.old, operation.new, *args)


def explain(operation, how, number):
    left = how(operation.old, operation.new).hex()
    return f"operation {number}, {operation.name} at {operation.at}: left {left}\npending {operation.promised.pending}"


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("quick_crc")
@pytest.mark.parametrize("ring", ["page-1", "page-256", *more("page-4", "page-64")])
def test_nothing_is_lost_at_any_cut(ring, record_property):
    page, blocks, size = RINGS[ring]
    flash = nor.NorFlash(blocks, size, page)
    tape = record(flash, Oracle(), seed=page, steps=STEPS[ring], first_mid=1)
    assert min(flash.erases) >= 2, "wraps around"
    points = second = 0
    for number, operation in enumerate(tape):
        for how in ways_of(operation, at_bytes, number % APART, APART):
            oracle = cut(flash, operation, how)
            try:
                oracle.judge(Journal(flash), order=points % 5 == 0)
                points += 1
                if points % 300 == 0:
                    second += cut_again(flash, oracle.copy(), a_few)
                elif points % 60 == 0:
                    continue_work(flash, oracle)
            except (AssertionError, ValueError, KeyError) as error:
                raise AssertionError(explain(operation, how, number)) from error
    record_property("cut points", points)
    record_property("second cuts", second)
    print(f"{ring}: {points} cuts, {second} cuts of the recovery or soon after")


def cut_again(flash, oracle, choose):
    """The same for a mount of the flash in its present state, and a small workload after it."""
    points = 0
    for operation in record(flash, oracle, seed=7, steps=3, first_mid=2000):
        for how in ways_of(operation, choose):
            after = cut(flash, operation, how)
            after.judge(Journal(flash))
            points += 1
    return points


def continue_work(flash, oracle):
    """The journal works for more than a lap of the ring."""
    Player(Journal(flash), oracle).run(seed=11, steps=45, first_mid=3000)
    oracle.judge(Journal(flash))


def test_cuts_of_one_mount_after_another_leave_space():
    """The oldest sector has two live records, and the NOTEs of a record that was cut short are at the beginning of the
    last erased one."""
    flash = nor.NorFlash(4, 512, 256)
    journal = Journal(flash)
    for n in range(52):
        at = journal.append(OUT, n + 1, b"m%03d" % n * 3, 12)
        journal.commit()
        if n % 9:
            journal.mark(at, DONE)
            journal.commit()
    before = contents(journal)
    flash.cut_at(0, nor.torn(end(flash) % 256 + 14, 0xA5))
    with pytest.raises(nor.PowerCut):
        journal.append(OUT, 999, b"the last one", 12)
    ended = _cut_mounts(flash, before, 3)
    assert ended > 100


def _cut_mounts(flash, before, cuts):
    # Mounts with so many cuts in a row, each at any operation. Returns how many mounts ended.
    flash.power_on()
    start = flash.snapshot()
    ended = k = 0
    while True:
        flash.restore(start)
        if cuts:
            flash.cut_at(k, nor.mixed(433))
        try:
            journal = Journal(flash)
        except nor.PowerCut:
            ended += _cut_mounts(flash, before, cuts - 1)
            k += 1
            continue
        flash.power_on()
        assert contents(journal) == before
        journal.append(SESSION, 0, b"s" * 40, 40)
        return ended + 1
