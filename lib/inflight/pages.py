# Programming a NOR-like block device: what a page may take, and the CRC of what goes into it. Bytes
# are put one after the other; only whole pages are programmed, with FF around what is new.

import struct
from array import array

# CRC-32 (IEEE) by the low and the high nibble of a byte, in halves: a CRC is too big for a small
# int where those have 31 bits.
_LOW = array("H", bytes(64))
_HIGH = array("H", bytes(64))


def _fill_tables():
    for i in range(32):
        crc = i if i < 16 else i - 16 << 4
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
        _LOW[i] = crc & 0xFFFF
        _HIGH[i] = crc >> 16


_fill_tables()
del _fill_tables


class Pages:
    """Fills the pages of `device`, which has readblocks, writeblocks and ioctl of MicroPython's
    extended block protocol, and may tell `page` (bytes of one program, default 256), `once` (a page
    must not be programmed twice; default False), `volatile` (RAM needs no CRC; default False) and
    `program(at, buf, off, n)` (writes any bytes anywhere)."""

    def __init__(self, device):
        self._dev = device
        self._n = device.ioctl(4, 0)
        self._size = device.ioctl(5, 0)
        page = getattr(device, "page", 256)
        self._once = once = getattr(device, "once", False)
        self._volatile = getattr(device, "volatile", False)
        self._write = getattr(device, "program", None)
        # Small pages are programmed several at a time.
        self._unit = unit = max(page, 16 if once else 64)
        self._page = bytearray(b"\xff" * unit)  # all FF but while it is being filled
        self._base = 0  # where it goes,
        self._k = self._from = 0  # how far it is filled, and from where on
        self._low = self._high = 0  # the CRC of what was put
        self._four = bytearray(4)
        self._mark = bytearray(unit if once else 1)  # what marks are read into

    def _read(self, at, buf):
        self._dev.readblocks(at // self._size, buf, at % self._size)

    def _is_set(self, at):
        # Whether the page at `at` was programmed, as far as power lasted.
        self._read(at, self._mark)
        for b in self._mark:
            if b != 0xFF:
                return True
        return False

    def _seek(self, at):
        self._k = self._from = at % self._unit
        self._base = at - self._k

    def _put(self, data, i, end):
        # Appends data[i:end] and carries the CRC along.
        self._sum(data, i, end)
        self._lay(data, i, end)

    def _lay(self, data, i, end):
        # Without the CRC, which takes more time than all the rest.
        if self._write:
            self._write(self._base + self._k, data, i, end - i)
            self._base += end - i
            return
        page = self._page
        while i < end:
            k = self._k
            j = min(end, i + self._unit - k)
            for i in range(i, j):
                page[k] = data[i]
                k += 1
            i = j
            self._k = k
            if k == self._unit:
                self._program()

    def _sum(self, data, i, end):
        if self._volatile:
            return
        low = self._low
        high = self._high
        low_of = _LOW
        high_of = _HIGH
        for i in range(i, end):
            x = (low ^ data[i]) & 255
            y = (x >> 4) + 16
            x &= 15
            low = (low >> 8 | (high & 255) << 8) ^ low_of[x] ^ low_of[y]
            high = high >> 8 ^ high_of[x] ^ high_of[y]
        self._low = low
        self._high = high

    def _put_crc(self):
        struct.pack_into("<HH", self._four, 0, self._low ^ 0xFFFF, self._high ^ 0xFFFF)
        self._lay(self._four, 0, 4)

    def _program(self):
        # Only the new bytes differ from FF, which leaves what is there alone.
        if self._k == self._from:
            return
        page = self._page
        try:
            self._dev.writeblocks(self._base // self._size, page, self._base % self._size)
        finally:
            for i in range(self._from, self._k):
                page[i] = 0xFF
        self._seek(self._base + self._unit)

    def _poke(self, at, data):
        # Clears bits; where that is forbidden, a page becomes zeros, whatever data is.
        self._seek(at)
        if self._once:
            data = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
            for _ in range(0, self._unit, 16):
                self._lay(data, 0, 16)
        else:
            self._lay(data, 0, len(data))
        self._program()

    def _sync(self):
        self._dev.ioctl(3, 0)


def log2(n):
    k = 0
    while n >> k + 1:
        k += 1
    return k
