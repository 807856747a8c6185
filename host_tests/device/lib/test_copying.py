"""A journal that is copied to another device, and pinned files that grow."""

from harness import CUT_STEP, eq, raises
from inflight import CardFlash, RamFlash, copy_journal, erase
from inflight.journal.journal import DONE, IN, OUT, RELEASED, SESSION, Journal
from nor import NorFlash, PowerCut, before, mixed, torn
from test_card import FIRST, Card
from test_journal import RINGS, RecordOwner, bodies, put

RUNTIMES = "cpython micropython-x64 micropython-x86"
MORE_RUNTIMES = "micropython-armhf native-x86"


def kept(journal):
    """What it has, and what a client relies on."""
    found = {kind: bodies(journal, kind) for kind in (OUT, IN, SESSION)}
    return found, journal.next_seq, journal.last_mid, journal.epoch, journal.damaged, journal.skipped, journal.live


def used_journal(n=4, size=1024, page=64, rounds=60):
    """One that has come around some times, with records of all kinds and states, copied ones among them."""
    flash = NorFlash(n, size, page)
    journal = Journal(flash)
    owner = journal.owner = RecordOwner()
    for k in range(rounds):
        kind = (OUT, OUT, IN, OUT, SESSION)[k % 5]
        owner[k] = put(journal, k, {OUT: 9 + k * 7 % 90, IN: 0, SESSION: 11}[kind], kind)
        if k % 4 == 1:
            journal.mark(owner[k], RELEASED)
        if k >= 7 and k - 7 not in (3, 11):  # these stay, and are copied
            journal.mark(owner.pop(k - 7), DONE)
    journal.commit()
    return flash, journal


def larger():
    for page, size in RINGS:
        if size >= 1024:
            yield NorFlash(9, size, page)
    yield RamFlash(12, 1024)
    yield CardFlash(Card(64), FIRST, 7, 2048)


def test_everything_is_there():
    for rounds in (0, 1, 9, 60, 130):
        for device in larger():
            _, journal = used_journal(rounds=rounds)
            expected = kept(journal)
            new = copy_journal(journal, device)
            eq(kept(new), expected)
            eq(kept(journal), expected)
            eq(kept(Journal(device)), expected)
            assert new.erases >= journal.erases


def test_numbers_of_messages_that_are_done_do_not_come_again():
    _, journal = used_journal()
    at = journal.scan(OUT, -1)
    while at >= 0:
        journal.mark(at, DONE)
        at = journal.scan(OUT, at)
    expected = kept(journal)
    eq(kept(copy_journal(journal, NorFlash(7, 1024, 64))), expected)


def test_it_goes_on():
    """As any other journal, over some laps; no number comes twice."""
    _, journal = used_journal()
    device = NorFlash(7, 1024, 64)
    new = copy_journal(journal, device)
    owner = new.owner = RecordOwner()
    live = [mid for mid, _ in bodies(new)]
    for k in range(1000, 1400):
        seq = new.next_seq
        owner[k] = put(new, k, 30)
        eq(new.next_seq, seq + 1)
        live.append(k)
        if k >= 1005:
            new.mark(owner.pop(k - 5), DONE)
            live.remove(k - 5)
    new.commit()
    eq(sorted(mid for mid, _ in bodies(Journal(device))), sorted(live))
    assert min(device.erases) > 2


def test_numbers_after_all_that_told_them_is_lost():
    """The erases of the old device count: no number that it gave comes again."""
    _, journal = used_journal(rounds=300)
    device = NorFlash(7, 1024, 64)
    copy_journal(journal, device)
    device.data[24:1024] = b"\0" * 100 + b"\x5a" * 900
    assert Journal(device).next_seq >= journal.next_seq


def test_what_was_lost_is_told_by_the_new_one():
    flash, journal = used_journal()
    flash.data[journal.find(OUT, 0) + 12] ^= 1
    journal = Journal(flash)
    assert journal.damaged == 1 and journal.lost
    new = copy_journal(journal, RamFlash(9, 1024))
    eq((new.damaged, new.found_damaged, new.lost), (1, journal.found_damaged, journal.lost))


def test_what_is_accepted_fits():
    """Also a ring of as many sectors takes all that this one has accepted, whatever came last; and goes on."""
    for n in (3, 5, 6):
        for first in ("longest", "ids", "messages"):
            journal = Journal(NorFlash(n, 512, 4))
            if first == "longest":
                put(journal, 0, journal.largest)
            elif first == "ids":
                put(journal, 0, 0, IN)
            for kind, size in ((OUT, 300), (OUT, 40), (IN, 0)):
                k = 1
                while journal.fits(kind, size):
                    put(journal, k, size, kind)
                    k += 1
            for mid in (0, 1):
                put(journal, mid, 40, SESSION)
            journal.commit()
            expected = kept(journal)
            for sectors in (n, n + 1):
                device = NorFlash(sectors, 512, 4)
                new = copy_journal(journal, device)
                eq(kept(new), expected)
                eq(kept(Journal(device)), expected)
                for kind in (OUT, IN):
                    at = new.scan(kind, -1)
                    while at >= 0:
                        new.mark(at, DONE)
                        at = new.scan(kind, at)
                put(new, 1, new.largest)


def test_a_device_that_does_not_do():
    """Neither fewer sectors, nor shorter ones, of which the erases tell no more how many numbers were given."""
    _, journal = used_journal(6)
    for device in (NorFlash(5, 1024, 64), NorFlash(40, 512, 64), RamFlash(5, 2048)):
        assert "device" in str(raises(ValueError, copy_journal, journal, device))


def test_a_device_that_is_not_blank():
    """Whatever was there, also records that are done: a copy begins only after erase()."""
    _, journal = used_journal()
    expected = kept(journal)
    for count in (0, 1, 50, 500):
        for kind in (IN, OUT):
            device = NorFlash(9, 1024, 64)
            other = Journal(device)
            for k in range(count):
                other.mark(put(other, k, 0, kind), DONE)
            other.commit()
            if count:
                taken = device.snapshot()
                assert "erase" in str(raises(ValueError, copy_journal, journal, device))
                eq(device.snapshot(), taken)
                erase(device)
            copy_journal(journal, device)
            eq(kept(Journal(device)), expected)
            assert "erase" in str(raises(ValueError, copy_journal, journal, device))


def test_a_damaged_record_is_not_copied():
    flash, journal = used_journal()
    flash.data[journal.find(OUT, 0) + 12] ^= 1
    raises(OSError, copy_journal, journal, RamFlash(9, 1024))
    journal.recover()
    expected = kept(journal)
    eq(kept(copy_journal(journal, RamFlash(9, 1024))), expected)


def test_power_cuts_leave_the_old_one():
    flash, journal = used_journal()
    image = flash.snapshot()
    expected = kept(journal)
    for way in (before, mixed(3), torn(20, 0x5A)):
        k = 0
        while True:
            device = NorFlash(9, 1024, 64)
            device.cut_at(k, way)
            try:
                eq(kept(copy_journal(journal, device)), expected)
                break
            except PowerCut:
                eq(flash.snapshot(), image)
            k += CUT_STEP
