"""Faults in the work of a journal, on flash of every granularity and in rings that a start does not read as a whole:
power cuts at, within and behind each operation, and again in the recovery; operations that fail, do nothing or are
interrupted. Nothing is lost, nothing is there twice, no damage is told, and the journal goes on. `make crash` cuts at
every byte of each operation."""

import sys

from account import Account, quick_crc
from faults import FAILURES, cuts, every_way, failures, one_way
from harness import CUT_STEP
from nor import NorFlash, PowerCut, after, before, mixed, noise, scattered, torn

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"

MICRO = sys.implementation.name == "micropython"  # has no heap for many images
EVERY = 6 * CUT_STEP if MICRO else CUT_STEP
if not MICRO:
    quick_crc()

# blocks, size, page, cache; records that live at a time: of 0 the ring has no checkpoints
RINGS = (
    (4, 512, 1, False, 0),
    (4, 512, 4, True, 0),
    (5, 512, 64, False, 0),
    (4, 512, 256, True, 0),
    (3, 1024, 256, False, 0),
    (24, 512, 4, False, 12),
    (16, 1024, 256, True, 8),
    (4, 1024, 64, False, 3),
    (40, 512, 4, False, 60),
)


def lives():
    """An Account for each ring, which went around."""
    for i in range(0, len(RINGS), 3 if MICRO else 1):
        blocks, size, page, cache, most = RINGS[i]
        flash = NorFlash(blocks, size, page, cache=cache)
        flash.checkpoints = most > 0
        life = Account(flash, most or 5, most > 12)
        while min(flash.erases) < 2:
            life.work(5)
        yield life


def one_of_them(operation, k):
    yield one_way(operation, k)
    if operation.unsynced:
        yield ["lost", k]


def recover(life):
    life.restart()
    life.work(2)


def test_power_cuts():
    """Some recoveries, and what follows, are cut too."""
    for life in lives():
        each = CUT_STEP == 1 and not life.flash.checkpoints
        ways = (lambda operation, k: (w for w in every_way(operation) if w[0] != "rot")) if each else one_of_them
        for k, other in enumerate(cuts(life, lambda life: life.work(80), ways, EVERY)):
            if k % (300 if each else 20) == 1:
                for last in cuts(other.copy(), recover, one_of_them, 5):
                    pass
                last.work(40)
                last.restart()


def test_failures():
    for life in lives():
        for other in failures(life, Account.work, FAILURES, 11 * CUT_STEP):
            other.work(10)
            other.restart()


def test_bits_that_read_differently_at_each_read():
    """In what a cut operation was changing: the first start decides, the others agree."""
    for life in lives():
        for other in cuts(life, lambda life: life.work(80), lambda operation, k: [["undecided", k]], 2 * EVERY):
            other.restart()
            other.work(5)
            other.restart()


def test_cuts_in_a_row():
    """Of the work, and of the starts that follow."""
    for life in lives():
        flash, toss = life.flash, noise(life.k)
        for k in range(270 // CUT_STEP):
            way = (before, after, torn(next(toss) % 64, 0x5A), mixed(next(toss)), scattered(next(toss)))[next(toss) % 5]
            flash.cut_at(next(toss) % (12 if k % 4 else 60), way, k)
            try:
                life.restart()
                life.work(20)
            except PowerCut:
                pass
            flash.power_on()
        life.restart()
