"""Where a board's journal is stored: the first storage available. A faulty storage is an error, not a reason for the
next."""

import os
from errno import ENOENT

from harness import eq, raises
from inflight.journal.journal import DONE, Journal
from littlefs_model import ROOT, Board, free, vfs, write
from nor import NorFlash
from storage import journal_flash
from test_journal import bodies, put

RUNTIMES = "cpython micropython-x86"


class Bare:
    """A driver's block device, which cannot have attributes."""

    __slots__ = ()
    flash = None

    def readblocks(self, block, buf, offset=0):
        self.flash.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=0):
        self.flash.writeblocks(block, buf, offset)

    def ioctl(self, op, arg):
        return self.flash.ioctl(op, arg)


def running(blocks=50):
    board = Board(blocks, 512, 32)
    board.boot()
    return board


def serves(device):
    journal = Journal(device)
    for k in range(60):
        at = put(journal, k)
        if k < 57:
            journal.mark(at, DONE)
    eq([mid for mid, _ in bodies(Journal(device))], [57, 58, 59])


def test_partition_first():
    board = running()
    blocks = free()
    for page in (256, 64):
        Bare.flash = NorFlash(4, 1024, page)
        device = journal_flash(Bare(), board.supply, root=ROOT, page=page)
        eq((device.where, device.repaired, device.page), ("partition", 0, page))
        serves(device)
    eq((os.listdir(ROOT), free()), ([], blocks))


def test_a_journal_in_a_partition_that_became_larger():
    """It keeps its size and its messages, at the end of the partition. What is in front of it is not touched; a sector
    without a header, and one that only looks like one, do not hide it."""
    for spoilt in (None, 9, 8):
        Bare.flash = smaller = NorFlash(4, 1024, 64)
        serves(journal_flash(Bare(), page=64))
        Bare.flash = larger = NorFlash(10, 1024, 64)
        larger.data[:6144] = bytes(range(256)) * 24
        larger.data[6144:] = smaller.data
        if spoilt:
            larger.data[spoilt * 1024 : spoilt * 1024 + 24] = b"IFJ\2" + bytes(20)
        device = journal_flash(Bare(), page=64)
        eq((device.where, device.page, device.ioctl(4, 0), device.ioctl(5, 0)), ("partition", 64, 4, 1024))
        eq([mid for mid, _ in bodies(Journal(device))], [57, 58, 59])
        put(Journal(device), 60)
        eq(bytes(larger.data[:6144]), bytes(range(256)) * 24)
    Bare.flash = NorFlash(10, 1024, 64)
    eq(journal_flash(Bare(), page=64).ioctl(4, 0), 10)


def test_what_is_there_keeps_its_size():
    """And 0 KiB make none."""
    board = running()
    eq(raises(OSError, journal_flash, None, board.supply, "/journal", ROOT, 32, 0).errno, ENOENT)
    eq(os.listdir(ROOT), [])
    device = journal_flash(None, board.supply, root=ROOT, page=32, kb=6)
    eq((device.where, device.repaired, device.ioctl(4, 0)), ("pinned files", 0, 12))
    serves(device)
    for kb in (8, 4, 0):
        board.boot()
        device = journal_flash(None, board.supply, root=ROOT, page=32, kb=kb)
        eq((device.ioctl(4, 0), device.repaired), (12, 0))
        eq([mid for mid, _ in bodies(Journal(device))], [57, 58, 59])


def test_errors_of_pinned_files_are_raised():
    board = running()
    write("/hog", b"x" * 512 * (free() - 10))
    assert "KiB" in str(raises(OSError, journal_flash, None, board.supply, "/journal", ROOT, 32, 8))
    eq(os.listdir(ROOT), ["hog"])
    os.remove(ROOT + "/hog")
    vfs.umount(ROOT)
    vfs.mount(vfs.VfsLfs2(board.supply, progsize=32), ROOT, readonly=True)
    raises(OSError, journal_flash, None, board.supply, "/journal", ROOT, 32, 8)
