"""A board's littlefs on simulated NOR flash, mounted at /flash. cut_at() as in nor.py; after PowerCut, boot() mounts
the same bytes again."""

import os

from harness import CUT_STEP, SkipTest
from nor import NorFlash, PowerCut, before, torn
from scratch import Replaced

try:
    import vfs

    vfs.VfsLfs2
except (ImportError, AttributeError):
    raise SkipTest("has no littlefs") from None

ROOT = "/flash"


class Supply:
    """The flash while there is power. After a power cut its operations do nothing, without an error: files left open
    are closed when they are collected (which prints an error 84), and must not change the flash. Nothing can be
    allocated then, so these methods are small."""

    def __init__(self, flash):
        self._flash = flash
        self.dead = False

    def readblocks(self, block, buf, offset=0):
        return 0 if self.dead else self._flash.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=0):
        return 0 if self.dead else self._guard(self._flash.writeblocks, block, buf, offset)

    def ioctl(self, op, arg):
        return 0 if self.dead else self._guard(self._flash.ioctl, op, arg)

    def _guard(self, operation, *args):
        try:
            return operation(*args)
        except PowerCut:
            self.dead = True
            raise


class Board:
    supply = None  # block device of the running board

    def __init__(self, blocks=40, block_size=512, page=32):
        self.flash = NorFlash(blocks, block_size, page)
        vfs.VfsLfs2.mkfs(self.flash, progsize=page)
        self.cut_at = self.flash.cut_at

    def boot(self):
        """Mounts the flash."""
        self.power_off()
        self.flash.power_on()
        Board.supply = Supply(self.flash)
        vfs.mount(vfs.VfsLfs2(self.supply, progsize=self.flash.page), ROOT)

    def power_off(self):
        if Board.supply:
            Board.supply.dead = True
            vfs.umount(ROOT)
        Board.supply = None

    def restore(self, snapshot):
        self.power_off()
        self.flash.restore(snapshot)

    def is_cut(self, k, how, act):
        """True if the power was cut at operation k of act(), False if act() had fewer."""
        self.cut_at(k, how)
        try:
            act()
            return False
        except (PowerCut, OSError):  # littlefs closes a file that it cannot read any more
            assert self.flash.off
            return True


def each_cut(board, act):
    """Cuts the power at operations of act(), in two ways: every program and erase, or CUT_STEP apart. Yields (number of
    the operation, way) of each cut, after the next start."""
    board.power_off()
    start = board.flash.snapshot()
    for how in (before, torn(20, 0x5A)):
        k = 0
        while True:
            board.restore(start)
            board.boot()
            if not board.is_cut(k, how, act):
                break
            board.boot()
            yield k, how
            k += CUT_STEP


def at_root():
    """`with at_root():` boards look for a journal in this file system."""
    import storage

    journal_flash = storage.journal_flash
    return Replaced(storage, journal_flash=lambda *args, **more: journal_flash(*args, root=ROOT, **more))


def write(path, data):
    with open(ROOT + path, "wb") as f:
        f.write(data)


def read(path):
    with open(ROOT + path, "rb") as f:
        return f.read()


def free():
    """Free blocks."""
    return os.statvfs(ROOT)[3]


def files(folder=""):
    """{path: content} of all files except the journal's."""
    found = {}
    for entry in os.ilistdir(ROOT + folder):
        path = folder + "/" + entry[0]
        if entry[1] & 0x4000:
            if path != "/journal":
                found[path] = None
                found.update(files(path))
        else:
            found[path] = read(path)
    found.pop("/journal.sum", None)
    return found
