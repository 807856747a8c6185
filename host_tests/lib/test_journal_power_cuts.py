"""Faults of a journal that only CPython can make, or that take long: an exception at any line; power cuts at every
program, every erase and every eleventh byte within them (`make crash`: every byte), and again during the recovery.
device/lib/test_journal_faults.py cuts some operations on every interpreter."""

from functools import partial

import pytest

import nor
from account import Account, records
from faults import cuts, every_way, failures, one_way
from host_tests.thorough import THOROUGH, more
from inflight.journal.journal import DONE, OUT, SESSION, Journal
from ring import end
from tools.crash.cutting import APART
from tools.reference.at_line import AtLine

# page: sectors, sector size
RINGS = {1: (4, 512), 4: (4, 512), 64: (5, 512), 256: (4, 512)}


def _ways(operation, number, apart):
    return (way for way in every_way(operation, apart) if way[0] != "rot")


def _recover(life):
    life.restart()
    life.work(3)


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("quick_crc")
@pytest.mark.parametrize("page", RINGS)
def test_nothing_is_lost_at_any_cut(page):
    life = Account(nor.NorFlash(*RINGS[page], page))
    points = second = 0
    for other in cuts(life, partial(Account.work, steps=75), partial(_ways, apart=APART)):
        points += 1
        if points % 300 == 0:
            second += sum(1 for _ in cuts(other.copy(), _recover, lambda operation, k: (one_way(operation, k),)))
        elif points % 60 == 0:
            other.work(45)
            other.restart()
    assert min(life.flash.erases) >= 2, "wraps around"
    print(f"page {page}: {points} cuts, {second} cuts of the recovery or soon after")


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
