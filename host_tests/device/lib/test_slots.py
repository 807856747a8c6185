"""Slot files on a littlefs: a journal in them, with power cuts at any operation of the flash."""

import os
import sys

from account import Account
from harness import CUT_STEP, SkipTest, eq, raises
from inflight.flash.slots import SlotFlash
from inflight.journal.journal import DONE, RELEASED, Journal
from littlefs_model import ROOT, Board, each_cut, files, vfs, write
from test_journal import RecordOwner, bodies, put
from test_journal_alloc import allocated, exchange

FOLDER = ROOT + "/journal"


def running(*args):
    board = Board(*args)
    board.boot()
    write("/main.py", b"import this\n" * 100)
    return board


class Disk:
    """A block device of 128 KiB of RAM for FAT."""

    def __init__(self):
        self.data = bytearray(256 * 512)

    def readblocks(self, block, buf):
        buf[:] = memoryview(self.data)[block * 512 : block * 512 + len(buf)]

    def writeblocks(self, block, buf):
        self.data[block * 512 : block * 512 + len(buf)] = buf

    def ioctl(self, op, arg):
        return 256 if op == 4 else 512 if op == 5 else 0


def each_file_system(check):
    """Calls check(folder, stop) with littlefs and with FAT; stop(device) restarts, orderly with FAT."""
    board = running()
    check(FOLDER, lambda device: board.boot())
    disk = Disk()
    vfs.VfsFat.mkfs(disk)
    vfs.mount(vfs.VfsFat(disk), "/fat")
    try:
        check("/fat/journal", SlotFlash.close)
    finally:
        vfs.umount("/fat")


def test_blocks():
    each_file_system(check_blocks)


def check_blocks(folder, stop):
    device = SlotFlash(folder, 4, 512)
    eq((device.where, device.repaired), ("slot files", 0))
    eq((device.ioctl(4, 0), device.ioctl(5, 0), device.ioctl(3, 0)), (4, 512, 0))
    buf = bytearray(600)
    device.readblocks(1, buf, 400)
    eq(bytes(buf), b"\xff" * 600)
    device.program(512 + 500, b"..abcdefghijkl..", 2, 12)
    device.program(1024 + 3, b"mnop", 0, 4)
    blank = bytearray(8)
    device.readblocks(2, blank, 300)  # beyond the end of the file
    eq(blank, b"\xff" * 8)
    device.readblocks(1, buf, 400)  # into the next block
    eq(bytes(buf), b"\xff" * 100 + b"abcdefghijkl" + b"\xff" * 3 + b"mnop" + b"\xff" * 481)
    device.program(512 + 502, b"C", 0, 1)
    device.ioctl(6, 2)
    device.readblocks(1, buf, 400)
    eq(bytes(buf), b"\xff" * 100 + b"abCdefghijkl" + b"\xff" * 488)
    device.readblocks(3, bytearray(8), 504)
    stop(device)


def test_durable_when_sync_returns():
    board = running()
    device = SlotFlash(FOLDER, 4, 512)
    device.program(512, b"hello", 0, 5)
    device.ioctl(3, 0)
    board.boot()  # the file was never closed
    buf = bytearray(6)
    SlotFlash(FOLDER, 4, 512).readblocks(1, buf)
    eq(bytes(buf), b"hello\xff")


def test_journal_wraps_around_and_is_mounted_again():
    each_file_system(check_journal)


def check_journal(folder, stop):
    device = SlotFlash(folder, 5, 512)
    journal = Journal(device)
    places = journal.owner = RecordOwner()
    for k in range(120):
        places[k] = put(journal, k)
        if k >= 3 and k % 40:
            journal.mark(places.pop(k), DONE)
    journal.mark(places[2], RELEASED)
    journal.commit()
    assert journal.erases > 10
    stop(device)
    device = SlotFlash(folder, 5, 512)
    again = Journal(device)
    eq(again.damaged, 0)
    eq(bodies(again), [(k, RELEASED if k == 2 else 0) for k in sorted(places)])
    eq((again.next_seq, again.epoch, again.erases), (120, journal.epoch, journal.erases))
    stop(device)


def test_another_geometry():
    running()
    device = SlotFlash(FOLDER, 5, 512)
    put(Journal(device), 1)
    device.close()
    for n, size in ((4, 512), (6, 512), (5, 1024)):
        other = SlotFlash(FOLDER, n, size)
        raises(ValueError, Journal, other)
        other.close()
    device = SlotFlash(FOLDER, 5, 512)
    eq(bodies(Journal(device)), [(1, 0)])
    device.close()


def test_full_file_system():
    board = running()
    device = SlotFlash(FOLDER, 8, 512)
    journal = Journal(device)
    put(journal, 1)
    journal.commit()
    with open(ROOT + "/hog", "wb") as f:
        try:
            while True:
                f.write(b"x" * 256)
                f.flush()
        except OSError:
            pass
    accepted = [1]
    raises(OSError, fill, journal, accepted)
    os.remove(ROOT + "/hog")
    board.boot()
    device = SlotFlash(FOLDER, 8, 512)
    eq([mid for mid, _ in bodies(Journal(device))][: len(accepted)], accepted)
    device.close()


def fill(journal, accepted):
    for k in range(2, 40):
        put(journal, k)
        journal.commit()
        accepted.append(k)


def test_no_heap_within_a_sector():
    if sys.maxsize > 2**31:
        raise SkipTest("measures the heap of 32-bit MicroPython")
    folder = "/tmp/inflight-test-slots-" + os.urandom(4).hex()  # not on littlefs: its test driver allocates
    device = SlotFlash(folder, 4, 16384)
    try:
        journal = Journal(device)
        eq(allocated(exchange, journal, bytearray(100), bytearray(58), 30), 0)
    finally:
        device.close()
        for name in os.listdir(folder):
            os.remove(folder + "/" + name)
        os.rmdir(folder)


def test_power_cut_everywhere():
    board = running(24, 512, 32)
    start = Account(SlotFlash(FOLDER, 4, 512))
    start.work(3)
    start.flash.close()
    users = files()
    lives = []

    def live(life, steps):
        lives[:] = (life,)
        life.flash = SlotFlash(FOLDER, 4, 512)
        life.restart()
        life.work(steps)
        life.flash.close()

    cuts = 0
    for _ in each_cut(board, lambda: live(start.copy(), 14)):
        cuts += 1
        live(lives[0], 1)
        eq(files(), users)
    assert cuts * CUT_STEP > 100
