# A journal on a file system whose blocks cannot be had raw: one small file for each sector, that
# ends behind the last byte programmed. Erased flash is no file, or an empty one.
#
# littlefs copies a file at each flush that changed it. Measured for a message of 89 bytes, with 16
# files of 1 KiB: on an RP2040 920 bytes are programmed and 0.9 blocks erased, on an ESP32 880 and
# 1.25; pinned files program 110 and erase a block in 37 messages. Files of 512 bytes cost a quarter
# less on an ESP32, nothing less on an RP2040, and a message has to fit one.

import os
from errno import EEXIST, ENOENT

from ..compat import const
from .flash import write

_CHUNK = const(64)


class SlotFlash:
    """A block device for journals of `n` files of at most `size` bytes in `folder`, durable when ioctl(3) returns. For
    file systems that are no littlefs on a raw device: it programs eight times what PinnedFlash does, erases thirty
    times as often, and who restores or deletes one of the files is not found out. littlefs completes a flush or leaves
    the file as it was; on FAT a power cut may cost more than the last message. Raises OSError."""

    page = 64
    where = "slot files"
    repaired = 0

    def __init__(self, folder="/journal", n=16, size=1024):
        from ..arguments import number, text

        text("folder", folder)
        number("n", n, 1, 255)
        number("size", size, 1, 65536, " bytes")
        self._n = n
        self._size = size
        self._path = folder + "/%02x.slot"
        self._blank = b"\xff" * _CHUNK
        self._out = self._in = None  # the file that is written, and the one that is read meanwhile
        self._out_slot = self._in_slot = -1
        self._end = 0  # length of the file that is written
        try:
            os.mkdir(folder)
        except OSError as e:
            if e.errno != EEXIST:
                raise

    def _to_read(self, slot):
        # The file of a slot, None if there is none.
        if slot == self._out_slot:
            return self._out
        if slot != self._in_slot:
            self._stop_reading()
            self._in = self._open(slot, "rb")
            self._in_slot = slot
        return self._in

    def _to_write(self, slot, mode):
        self.close()
        self._out = self._open(slot, mode) or self._open(slot, "w+b")
        self._out_slot = slot
        self._end = self._out.seek(0, 2)

    def _open(self, slot, mode):
        try:
            return open(self._path % slot, mode)
        except OSError as e:
            if e.errno != ENOENT or mode == "w+b":
                raise

    def _stop_reading(self):
        if self._in:
            self._in.close()
        self._in = None
        self._in_slot = -1

    def close(self):
        self._stop_reading()
        if self._out:
            self._out.close()
        self._out = None
        self._out_slot = -1

    def readblocks(self, block, buf, offset=0):
        k = self._size - offset
        if len(buf) <= k:
            self._fill(buf, self._to_read(block), offset)
            return
        view = memoryview(buf)
        self._fill(view[:k], self._to_read(block), offset)
        self.readblocks(block + 1, view[k:])

    def _fill(self, buf, file, offset):
        n = 0
        # FAT makes a file longer when one seeks behind its end to write.
        if file and (file is not self._out or offset < self._end):
            file.seek(offset)
            n = file.readinto(buf)
        for i in range(n, len(buf)):
            buf[i] = 0xFF

    def program(self, at, buf, off, n):
        slot = at // self._size
        at %= self._size
        if slot != self._out_slot:
            self._to_write(slot, "r+b")
        file = self._out
        file.seek(min(at, self._end))
        while self._end < at:
            write(file, self._blank, 0, min(_CHUNK, at - self._end))
            self._end = min(at, self._end + _CHUNK)
        write(file, buf, off, n)
        self._end = max(self._end, at + n)

    def ioctl(self, op, arg):
        if op == 3:
            if self._out:
                self._out.flush()
        elif op == 4:
            return self._n
        elif op == 5:
            return self._size
        elif op == 6:
            self._to_write(arg, "w+b")
        return 0
