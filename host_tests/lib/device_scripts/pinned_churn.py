"""A littlefs with a journal in pinned files, while the file system is used for other files: `pinned_churn.py IMAGE SEED
OPERATIONS PAGE`.

Does thousands of creations, writes, appends, renames and deletions, until the file system is full, among the journal's
appends, marks and restarts. Ends abruptly, like a power cut. Prints the expected content of the image as JSON:
{"files": {path: [length, crc]}, "journal": {Message ID: body's length}, ...}."""

import json
import os
import random
import sys
from binascii import crc32

import vfs

from inflight.flash.pinned import PinnedFlash
from inflight.journal.journal import DONE, OUT, Journal

ROOT = "/flash"
BLOCKS = 64
SIZE = 4096
MOST = 24  # other files
ENOSPC = 28


class Flash:
    """NOR flash: programming only clears bits, so a missing erase corrupts data."""

    def __init__(self, page):
        self.page = page
        self.data = bytearray(BLOCKS * SIZE)

    def readblocks(self, block, buf, offset=0):
        at = block * SIZE + offset
        buf[:] = memoryview(self.data)[at : at + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        at = block * SIZE + offset
        if len(buf) % self.page or offset % self.page:
            raise ValueError("%d bytes at %d" % (len(buf), offset))
        old = int.from_bytes(memoryview(self.data)[at : at + len(buf)], "little")
        left = old & int.from_bytes(buf, "little")
        self.data[at : at + len(buf)] = left.to_bytes(len(buf), "little")

    def ioctl(self, op, arg):
        if op == 4:
            return BLOCKS
        if op == 5:
            return SIZE
        if op == 6:
            memoryview(self.data)[arg * SIZE : (arg + 1) * SIZE] = b"\xff" * SIZE
        return 0


class User:
    """Uses the file system at random, and keeps the expected length and CRC-32 of each file."""

    def __init__(self):
        self.files = {}
        self.full = 0  # how often the file system was full
        self.growing = True
        self.counter = 0

    def act(self):
        dice = random.randrange(10)
        if not self.files or dice < 3:
            self.create()
        elif dice < 5:
            self.append()
        elif dice < 6:
            self.overwrite()
        elif dice < 8:
            self.rename()
        elif dice < 9 or not self.growing:
            self.delete()
        if not self.growing and len(self.files) < 4:
            self.growing = True

    def any(self):
        return random.choice(sorted(self.files))

    def new_path(self):
        self.counter += 1
        return "%s/f%d" % (random.choice(("", "/data", "/data/deep")), self.counter)

    def create(self):
        if len(self.files) >= MOST or not self.growing:
            return self.delete()
        path = self.new_path()
        self.files[path] = [0, 0]  # the directory entry exists as soon as the file is open
        self._write(path, "wb", [0, 0])

    def append(self):
        path = self.any()
        self._write(path, "ab", self.files[path])

    def overwrite(self):
        self._write(self.any(), "wb", [0, 0])

    def _write(self, path, mode, state):
        # What does not fit was never written: littlefs keeps the file as it was.
        self._try(self._fill, path, mode, *state)

    def _fill(self, path, mode, length, crc):
        with open(ROOT + path, mode) as f:
            for _ in range(random.randrange(1, 40)):
                data = bytes([random.getrandbits(8)]) * random.randrange(1, 600)
                f.write(data)
                length += len(data)
                crc = crc32(data, crc)
        self.files[path] = [length, crc]

    def rename(self):
        old = self.any()
        new = self.any() if random.getrandbits(1) else self.new_path()
        if self._try(os.rename, ROOT + old, ROOT + new):
            self.files[new] = self.files.pop(old)

    def delete(self):
        if self.files:
            path = self.any()
            if self._try(os.remove, ROOT + path):
                del self.files[path]

    def _try(self, operation, *args):
        try:
            operation(*args)
            return True
        except OSError as e:
            if e.errno != ENOSPC:
                raise
            self.full += 1
            self.growing = False

    def check(self):
        for path, (length, crc) in self.files.items():
            with open(ROOT + path, "rb") as f:
                data = f.read()
            if (len(data), crc32(data)) != (length, crc):
                raise AssertionError("%s has changed" % path)


class Sensor:
    """Appends and marks records, around the ring."""

    def __init__(self):
        self.live = {}  # Message ID: (address, length of the body)
        self.mid = 0

    def start(self, flash):
        self.device = PinnedFlash(flash, root=ROOT, page=flash.page)
        if self.device.repaired:
            raise AssertionError("%d pinned files were recreated" % self.device.repaired)
        self.journal = Journal(self.device)
        self.journal.owner = self
        found = {}
        seq = 0
        while (at := self.journal.find(OUT, seq)) >= 0:
            found[self.journal.found_mid] = at, self.journal.found_len
            seq = self.journal.found_seq + 1
        if {mid: n for mid, (_, n) in found.items()} != {mid: n for mid, (_, n) in self.live.items()}:
            raise AssertionError("the journal lost a record")
        self.live = found

    def moved(self, old, new):
        for mid, (at, n) in self.live.items():
            if at == old:
                self.live[mid] = new, n

    def can_spare(self, at, anew=False):
        return False

    def act(self):
        if len(self.live) < 40 and random.randrange(3):
            self.mid = self.mid % 60000 + 1
            n = random.randrange(30, 200)
            self.live[self.mid] = self.journal.append(OUT, self.mid, bytes([self.mid & 255]) * n, n), n
        elif self.live:
            mid = min(self.live) if random.randrange(10) else random.choice(sorted(self.live))
            self.journal.mark(self.live.pop(mid)[0], DONE)


def main(image, seed, operations, page):
    random.seed(seed)
    flash = Flash(page)
    vfs.VfsLfs2.mkfs(flash, progsize=page)
    vfs.mount(vfs.VfsLfs2(flash, progsize=page), ROOT)
    os.mkdir(ROOT + "/data")
    os.mkdir(ROOT + "/data/deep")
    user, sensor = User(), Sensor()
    sensor.start(flash)
    for k in range(operations):
        user.act()
        sensor.act()
        if k % 500 == 499:
            vfs.umount(ROOT)
            vfs.mount(vfs.VfsLfs2(flash, progsize=page), ROOT)
            sensor.start(flash)
            user.check()
    journal = sensor.journal
    with open(image, "wb") as f:
        f.write(flash.data)
    told = {
        "files": user.files,
        "journal": {mid: n for mid, (_, n) in sensor.live.items()},
        "seq": journal.next_seq,
        "epoch": journal.epoch,
        "erases": journal.erases,
        "full": user.full,
    }
    print(json.dumps(told))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
