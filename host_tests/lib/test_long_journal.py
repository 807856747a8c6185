"""What a start costs: reads of the flash, which take an RP2040 0.3 ms each, and records, of 1.7 ms each. A second is
3,300 reads, or 590 records."""

from functools import lru_cache

import pytest

from account import quick_crc
from host_tests.thorough import more
from inflight.counters import ACCEPTED, DROPPED
from inflight.errors import OutboxFull
from inflight.journal.journal import DONE, IN, OUT, SESSION, Journal
from inflight.journal.sectors import SectorReader
from inflight.session.session import Session
from tools.bench.figures.starts import LongFlash, fill, go_round, start

BODY = bytes(95)


@pytest.fixture(autouse=True)
def _quick_crc(monkeypatch):
    quick_crc(monkeypatch.setattr)


@pytest.fixture
def records(monkeypatch):
    """A list with an entry for each record that a mount finds."""
    found = []
    has_record = SectorReader.has_record

    def counted(self, at):
        if has_record(self, at):
            found.append(at)
            return True
        return False

    monkeypatch.setattr(SectorReader, "has_record", counted)
    return found


def ring(sectors):
    """A journal of so many sectors that has been around once, with the record of a session in its last quarter."""
    flash = blank(sectors)
    flash.data[:] = _image(sectors)
    return flash, Journal(flash)


def blank(sectors):
    flash = LongFlash(sectors, 4096, 256)
    flash.checkpoints = True
    return flash


@lru_cache
def _image(sectors):
    flash = blank(sectors)
    journal = Journal(flash)
    for k in range(sectors * 40):
        if k == sectors * 30:
            for copy in (0, 1):
                journal.append(SESSION, copy, b"session", 7)
        journal.mark(journal.append(OUT, k % 65535 + 1, BODY, len(BODY)), DONE)
    journal.commit()
    return flash.snapshot()


def few_ids(journal):
    """32 sectors with a received id each, that is not released, everywhere in the ring."""
    go_round(journal)
    for k in range(226 * 37):
        journal.mark(journal.append(OUT, k + 1, BODY, len(BODY)), DONE)
        if k % 259 == 0 and k < 32 * 259:
            journal.append(IN, 1000 + k, b"", 0)
    journal.commit()


@pytest.mark.parametrize("work", [fill, go_round])
@pytest.mark.parametrize("sectors", [16, 64])
def test_a_ring_of_64_or_256_kib(sectors, work):
    flash = LongFlash(sectors, 4096, 256)
    work(Journal(flash))
    _, reads, _ = start(flash)
    assert reads < 320  # most of half a sector


@pytest.mark.parametrize(
    "work",
    [
        lambda journal: journal.mark(journal.append(OUT, 1, BODY, len(BODY)), DONE),
        lambda journal: fill(journal, 4000),
        lambda journal: fill(journal, journal.largest),
        lambda journal: go_round(journal, journal.largest),
        lambda journal: (go_round(journal), fill(journal, journal.largest)),
        few_ids,
    ],
)
def test_a_quarter_is_read_at_most(work):
    """Where nearly all sectors are erased, records leave no space for a checkpoint beside them, or some that nobody
    completes stand in many sectors."""
    flash = blank(256)
    work(Journal(flash))
    whole = LongFlash(256, 4096, 256)
    whole.checkpoints, whole.data = False, bytearray(flash.data)
    journal, most, _ = start(whole)
    again, reads, sectors = start(flash)
    assert reads < most // 4 and sectors < 64, (reads, most, sectors)
    while again.unread:
        again.collect()
    assert (again.live, again.used, again.next_seq) == (journal.live, journal.used, journal.next_seq)


def test_a_header_is_damaged():
    """Of any sector: each start reads as much as before, or nearly; the first one mends that of the newest sector. What
    is read later is found right."""
    flash = LongFlash(64, 1024, 256)
    flash.checkpoints = True
    fill(Journal(flash))
    image = flash.snapshot()
    journal, healthy, _ = start(flash)
    newest = (journal.erases - 1) % 64
    for sector in range(64):
        flash.restore(image)
        flash.data[sector * 1024 + (9, 17, 22)[sector % 3]] ^= 1
        for k in range(3):
            again, reads, _ = start(flash)
            assert reads < 2 * healthy or (sector, k) == (newest, 0), (sector, k, reads, healthy)
        while again.unread:
            again.collect()
        assert (again.live, again.damaged) == (journal.live, 0)


@pytest.mark.parametrize("sectors", [256, *more(2048)])
@pytest.mark.parametrize("waiting", [0, 10, 200, None])
def test_a_start_takes_less_than_a_second(records, sectors, waiting):
    flash, journal = ring(sectors)
    if waiting is None:
        fill(journal)
        assert journal.live > 21 * sectors
    else:
        for k in range(waiting):
            journal.append(OUT, k + 1, BODY, len(BODY))
        journal.commit()
    flash.reads = 0
    records.clear()
    again = Journal(flash)
    seconds = flash.reads * 0.0003 + len(records) * 0.0017
    print(f"{sectors} sectors, {journal.live} messages: {flash.reads} reads, {len(records)} records, {seconds:.2f} s")
    assert seconds < 0.7
    assert (again.next_seq, again.last_mid) == (journal.next_seq, journal.last_mid)
    assert journal.live <= again.live <= journal.live + 40 and again.used >= journal.used
    # When all is counted, nothing is left of the difference.
    seen = 0
    at = again.scan(OUT, -1)
    while at >= 0:
        seen += 1
        at = again.scan(OUT, at)
    assert (seen, again.live, again.used) == (journal.live, journal.live, journal.used)
    assert again.checkpoints.uncounted == 0


@pytest.mark.parametrize("sectors", [256, *more(2048)])
def test_a_session_does_not_read_the_messages_that_wait(sectors):
    """Neither when it begins, nor when it takes the first new message, nor when some are completed; and it counts right
    in the end."""
    flash = blank(sectors)
    journal = Journal(flash)
    session = Session(journal, bytearray(512), b"dev")
    session.write_record(8)
    session.commit()

    def publish(session):
        return session.publish(b"sensors/attic/temperature", bytes(60), 1, False)

    accepted = 0
    try:
        while True:
            publish(session)
            accepted += 1
    except OutboxFull:
        pass
    journal = Journal(flash)
    flash.reads = 0
    session = Session(journal, bytearray(512), b"dev")
    assert (session.pending, session.rows) == (accepted, 8)
    for _ in range(40):
        session.finish(0)
    first = session.mids[0]
    mid = publish(session)
    assert mid and session.count[ACCEPTED] == 1
    assert flash.reads < 1700, flash.reads
    assert journal.checkpoints.uncounted > sectors // 3
    mids = []
    while session.rows:
        mids.append(session.mids[0])
        session.finish(0)
    assert mids == [(first - 1 + k) % 65535 + 1 for k in range(accepted - 39)]
    assert (session.pending, session.queued, journal.checkpoints.uncounted) == (0, 0, 0)


@pytest.mark.parametrize("sectors", [256, *more(2048)])
def test_one_message_costs_as_much_as_in_a_short_ring(sectors):
    """Reads of the flash when it is looked for by its number or its id, given up, or dropped since the journal is full:
    fewer than all the 560 of a ring of 64 KiB."""

    def reads(work):
        before = flash.reads
        found = work()
        return flash.reads - before, found

    flash = blank(sectors)
    journal = Journal(flash)
    session = Session(journal, bytearray(512), b"dev", when_full="oldest")
    session.write_record(8)
    while not session.count[DROPPED]:
        session.publish(b"sensors/attic/temperature", bytes(60), 1, False)
    live = journal.live
    begun = Journal(flash)
    assert reads(lambda: begun.find(OUT, begun.next_seq - live // 2))[0] < 520  # two sectors are counted there
    session = Session(begun, bytearray(512), b"dev", when_full="oldest")
    at = begun.scan(OUT, -1)
    while at >= 0:
        at = begun.scan(OUT, at)
    assert reads(lambda: session.publish(b"t", b"", 1, False))[0] < 150
    for part in (2, 3, 5, 50, live):
        seq, mid = begun.next_seq - live // part, begun.last_mid - live // part + 1
        n, at = reads(lambda: begun.find(OUT, seq))  # noqa: B023
        assert n < 150 and at >= 0 and begun.found_seq == seq
        n, found = reads(lambda: session.is_pending(mid))  # noqa: B023
        assert n < 250 and found
        assert reads(lambda: session.is_pending(mid)) == (0, True)  # noqa: B023
    n, found = reads(lambda: session.is_pending(begun.last_mid % 65535 + 1))
    assert n < 100 and not found
    n, found = reads(lambda: session.discard_message(mid))
    assert n < 250 and found
    for _ in range(100):
        dropped = session.count[DROPPED]
        n, _ = reads(lambda: session.publish(b"sensors/attic/temperature", bytes(60), 1, False))
        assert n < 100
    assert session.count[DROPPED] > dropped
