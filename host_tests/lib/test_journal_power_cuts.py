"""Faults of a journal that only CPython can make, or that take long: an exception at any line, mounts that are cut
short one after the other. device/lib/test_journal_faults.py has the others."""

import pytest

import nor
from account import Account, records
from faults import failures
from host_tests.thorough import THOROUGH, more
from inflight.journal.journal import DONE, OUT, SESSION, Journal
from ring import end
from tools.reference.at_line import AtLine


@pytest.mark.usefixtures("quick_crc")
@pytest.mark.parametrize("error", [KeyboardInterrupt, *more(MemoryError, OSError)])
def test_an_exception_at_any_line(error):
    """Ctrl-C, or a lack of heap: after a recovery all is as it was promised, and the journal goes on."""

    def raise_it():
        raise error

    life = Account(nor.NorFlash(4, 512, 64))
    life.work(60)
    lines = failures(life, Account.work, (lambda k: AtLine(k, raise_it),), 11 if THOROUGH else 307, error)
    assert sum(other.work(10) or other.restart() or 1 for other in lines) > 10


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


def contents(journal):
    return sorted(record[:5] for record in records(journal))


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
