"""Flash that is worn, and the space that a journal keeps: what was accepted is never lost to the lack of it."""

from harness import CUT_STEP, EMULATED, eq
from inflight.journal.journal import DONE, HEADER, IN, OUT, SESSION, Journal, OutboxFull
from nor import NorFlash, noise
from ring import numbers
from test_journal import RecordOwner, bodies, put

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"


def test_a_page_that_cannot_be_programmed_is_skipped():
    """It always reads blank; publish() succeeds with another page."""
    flash = NorFlash(5, 1024, 256)
    journal = Journal(flash)
    put(journal, 0)
    flash.stuck = {at: 0xFF for at in range(256, 512)}
    accepted = [0]
    for k in range(1, 12):
        try:
            put(journal, k, 60)
            accepted.append(k)
        except OSError:
            assert journal.failed
            journal.recover()
    eq([mid for mid, _ in bodies(journal)], accepted)
    eq(len(accepted), 11)
    eq([mid for mid, _ in bodies(Journal(flash))], accepted)


def test_a_bit_that_cannot_be_cleared():
    """Wherever it is: what goes there fails once, the next message is accepted, none is lost, no number passed over.
    Only in the header of a sector is it counted, as damage."""
    for at in range(0, 4 * 512, 17 * CUT_STEP):
        flash = NorFlash(4, 512, 64)
        flash.stuck[at] = 1 << at % 8
        journal = recovered(flash)
        live = []
        k = failures = 0
        while min(flash.erases) < 3:
            try:
                if len(live) > 2:
                    journal.mark(journal.find(OUT, live.pop(0)), DONE)
                put(journal, k)
                journal.commit()
                live.append(journal.next_seq - 1)
                k += 1
            except OSError:
                failures += 1
                journal = recovered(flash, at % 2 and journal)
            eq(numbers(journal), live)
        assert failures < 40, failures
        again = Journal(flash)
        eq((numbers(again), again.next_seq, again.found_skipped), (live, journal.next_seq, 0))
        assert again.found_damaged <= (at % 512 < 24), again.found_damaged


def test_two_worn_bits_in_a_ring_of_three():
    """They cannot be cleared, or not be set. A message that cannot be moved any more stays where it is: nothing is
    erased before its copy is there."""
    for seed in range(0, 200, CUT_STEP):
        toss = noise(seed)
        flash = NorFlash(3, 512, 64)
        for _ in range(2):
            at = next(toss) % 1536
            (flash.low if next(toss) & 1 else flash.stuck)[at] = 1 << next(toss) % 8
        journal = recovered(flash)
        live = []
        for k in range(40):
            n = (20, 60, 100, 200)[next(toss) % 4]
            marking = live and (next(toss) % 3 == 0 or not journal.fits(OUT, n))
            wanted = live[1:] if marking else live + [journal.next_seq]
            try:
                if marking:
                    journal.mark(journal.find(OUT, live[0]), DONE)
                else:
                    put(journal, k, n)
                live = wanted
            except OutboxFull:
                pass
            except OSError:
                journal = recovered(flash, seed % 2 and journal)
            found = sorted(numbers(journal))
            assert found in (live, wanted) or journal.damaged, (seed, k, found, live, wanted)
            live = found


def test_bits_that_cannot_be_set_in_erased_sectors():
    """After a start they are erased as before: a copy of the oldest message, as long as a sector, has space there."""
    for page in (64, 256):
        for sector in (2, 3):
            for at in range(HEADER, 512, 7 * CUT_STEP):
                flash = NorFlash(4, 512, page)
                journal = Journal(flash)
                put(journal, 0, 450)
                journal.append(SESSION, 0, b"s" * 14, 14)
                journal.commit()
                eq((journal.find(OUT, 0) // 512, journal.scan(SESSION, -1) // 512), (0, 1))
                flash.low[sector * 512 + at] = 1 << at % 8
                flash.data[sector * 512 + at] &= ~flash.low[sector * 512 + at]
                journal = recovered(flash)
                eq((numbers(journal), journal.found_damaged), ([0], 0))
                replace_session(journal, 6)


def test_what_messages_need_to_be_completed_has_space():
    """With two bits that cannot be cleared, or not be set: whenever the device starts, the session record is written
    again within a few attempts, and when the messages are completed, others are accepted. The oldest one may be as long
    as a sector, and fit none of those that are left."""
    for ring in ((3, 512, 64), (4, 512, 256), (4, 512, 64)):
        for seed in range(0, 60, CUT_STEP):
            toss = noise(seed)
            flash = NorFlash(*ring)
            journal = Journal(flash)
            for _ in range(2):
                at = next(toss) % len(flash.data)
                (flash.low if next(toss) & 1 else flash.stuck)[at] = 1 << next(toss) % 8
            for k in range(60):
                journal = recovered(flash, next(toss) % 2 and journal) if journal.failed else journal
                step = next(toss) % 8
                try:
                    if step < 4:
                        put(journal, k, (20, 60, 100, 440)[next(toss) % 4])
                    elif step < 6 and journal.live:
                        journal.mark(journal.find(OUT, 0), DONE)
                    elif step == 6:
                        replace_session(journal, 1)
                    else:
                        journal = Journal(flash)
                except (OutboxFull, OSError):
                    pass
                if k % 5 == 0:
                    is_alive(flash, ring)


def is_alive(flash, ring):
    """The journal of a copy of the flash is recovered, its messages are completed, and another one is accepted."""
    copy = NorFlash(*ring)
    copy.data[:] = flash.data
    copy.low, copy.stuck = flash.low, flash.stuck
    journal = recovered(copy)
    replace_session(journal, 6)
    while journal.live:
        try:
            journal.mark(journal.find(OUT, 0), DONE)
        except OSError:
            recovered(copy, journal)
    for left in range(6, -1, -1):
        try:
            put(journal, 1, 20)
            break
        except OSError:
            assert left
            recovered(copy, journal)


def replace_session(journal, attempts):
    """Appends a SESSION record; the ones before it are done. Fails after so many attempts."""
    for left in range(attempts - 1, -1, -1):
        try:
            journal.append(SESSION, 0, b"s" * 14, 14)
            journal.commit()
            while journal.scan(SESSION, journal.scan(SESSION, -1)) >= 0:
                journal.mark(journal.scan(SESSION, -1), DONE)
            journal.commit()
            return
        except (OutboxFull, OSError):
            if not left:
                raise
            if journal.failed:
                journal.recover()


def recovered(flash, journal=None):
    """The journal after its recovery, or that of a device that starts again, until it can mount."""
    for _ in range(8):
        try:
            if not journal:
                return Journal(flash)
            journal.recover()
            return journal
        except OSError:
            pass
    raise AssertionError("no mount succeeds")


def test_no_record_of_any_kind_erases_more_than_two_sectors():
    """Beside a message of any length there are received ids and the session, up to what is reserved for those."""
    for blocks in (3, 4, 6):
        for seed in range(0, 8, CUT_STEP):
            toss = noise(seed)
            flash = NorFlash(blocks, 512, 64)
            journal = Journal(flash)
            places = journal.owner = RecordOwner()
            for step in range(60 if EMULATED else 200):
                kind = (OUT, IN, IN, IN, SESSION)[next(toss) % 5]
                n = {OUT: (journal.largest, 20, 200)[next(toss) % 3], IN: 0, SESSION: 11 + next(toss) % 20}[kind]
                most = 1 + next(toss) % 40
                keys = sorted(places)
                while keys and (not journal.fits(kind, n) or len(keys) > most):
                    journal.mark(places.pop(keys.pop(next(toss) % len(keys))), DONE)
                erases = sum(flash.erases)
                places[kind, step] = put(journal, step, n, kind)
                assert sum(flash.erases) - erases <= 2, (blocks, seed, step)


def test_what_is_not_durable_is_in_one_sector():
    """A mount looks for no more behind the last record that it finds."""
    flash = NorFlash(8, 512, 64, cache=True)
    journal = Journal(flash)
    sectors = set()
    for k in range(20):
        head = bytearray(b"%040d" % k)
        journal.append(OUT, k + 1, head, len(head))
        unsynced = {at // 512 for at, _, _ in flash.unsynced()}
        assert len(unsynced) < 2, unsynced
        sectors |= unsynced
    eq(sectors, {0, 1, 2})


def test_a_mount_reads_what_is_blank_once():
    """A sensor that sleeps mounts in each wake, and each read costs a board half a millisecond."""
    flash = NorFlash(16, 4096, 256)
    journal = Journal(flash)
    for k in range(6):
        put(journal, k)
    journal.commit()
    flash.reads = 0
    eq(len(bodies(Journal(flash))), 6)
    assert flash.reads < 400, flash.reads
