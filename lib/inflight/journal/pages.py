# Programming a NOR-like block device: bytes are gathered into whole pages, with FF around what is new,
# programmed, and read back. The CRC of what is written is computed on the way.

import struct
import sys
from array import array
from errno import EIO

from ..compat import const

# CRC-32 (IEEE) by the low and the high nibble of a byte, in halves: a CRC is too big for a small
# int where those have 31 bits.
CRC_LOW = array("H", bytes(64))
CRC_HIGH = array("H", bytes(64))
CRC_START = const(0xFFFF)  # of both halves, of each record
CHUNK = const(64)  # bytes that are read back at a time


def _fill_tables():
    for i in range(32):
        crc = i if i < 16 else i - 16 << 4
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
        CRC_LOW[i] = crc & 0xFFFF
        CRC_HIGH[i] = crc >> 16


_fill_tables()
del _fill_tables


class Pages:
    """Fills the pages of `device`, which has readblocks, writeblocks and ioctl of MicroPython's
    extended block protocol, and may tell `page` (bytes of one program, a power of 2, default 256),
    `volatile` (RAM, which needs no CRC; default False), `checkpoints` (a start need not read all of a journal; default:
    where that is longer than 64 KiB) and `program(at, buf, off, n)` (writes any bytes anywhere; for file systems, which
    are trusted to write what they are given)."""

    # Of what journal.prepare() sets.
    _n: int
    _size: int
    _unit: int
    _page: bytearray
    _chunk: bytearray
    _four: bytearray
    _crc: array
    _volatile: bool
    # Of any class that has those methods: MicroPython has no typing.
    _dev: "Any"  # type: ignore[name-defined] # noqa: F821
    _write: "Any"  # type: ignore[name-defined] # noqa: F821

    def _read(self, at, buf):
        self._dev.readblocks(at // self._size, buf, at % self._size)

    def _seek(self, at):
        self._k = self._from = at % self._unit
        self._base = at - self._k

    def _put(self, data, i, end):
        # Appends data[i:end] and carries the CRC along.
        self._sum(data, i, end)
        self._buffer(data, i, end)

    def _buffer(self, data, i, end):
        # Without the CRC, which takes more time than all the rest.
        if self._write:
            self._write(self._base + self._k, data, i, end - i)
            self._base += end - i
            return
        page = self._page
        k = self._k
        while k + end - i > self._unit:
            copy_bytes(page, k, data, i, i + self._unit - k)
            i += self._unit - k
            self._k = self._unit
            self._program()
            k = 0
        copy_bytes(page, k, data, i, end)
        self._k = k + end - i

    def _sum(self, data, i, end):
        if not self._volatile:
            add_to_crc(self._crc, data, i, end, CRC_LOW, CRC_HIGH)

    def _put_crc(self):
        struct.pack_into("<HH", self._four, 0, self._crc[0] ^ 0xFFFF, self._crc[1] ^ 0xFFFF)
        self._buffer(self._four, 0, 4)

    def _program(self, exact=True, verified=True):
        # Programs what was gathered. Only the new bytes differ from FF, which leaves what is there alone.
        # Then reads it: worn flash ignores a program, or part of it, without a word. Not `exact`: other bits may have
        # been 0 before.
        k = self._from
        last = self._k
        if last == k:
            return
        base = self._base
        sector = base // self._size
        at = base % self._size
        page = self._page
        self._dev.writeblocks(sector, page, at)
        while verified and k < last:
            i = k % CHUNK
            end = min(CHUNK, i + last - k)
            # As _read(), and a page lies within a sector: here calls are nested deepest.
            self._dev.readblocks(sector, self._chunk, at + k - i)
            if not has_taken(self._chunk, i, end, page, k, exact):
                self._bad = base
                if self._from or at:  # no header
                    self._worn = sector
                raise OSError(EIO, "the flash did not take what was programmed")
            k += end - i
        # 64 bytes of FF at a time; those around them are FF already.
        for i in range(self._from, last, CHUNK):
            struct.pack_into("<8q", page, min(i, self._unit - CHUNK), -1, -1, -1, -1, -1, -1, -1, -1)
        self._seek(base + self._unit)

    def _clear_bits(self, at, data, n):
        # Clears the bits of the n bytes at `at` that are 0 in data.
        self._seek(at)
        self._buffer(data, 0, n)
        self._program(False)

    def _sync(self):
        self._dev.ioctl(3, 0)


# --- loops over bytes ---
# They take most of the time of a journal. The tools compile them to machine code for boards
# whose processor they know, as viper functions: their arguments have types for that. Everywhere else they are the
# functions that they seem to be. So they use nothing but buffers and numbers of 16 bits, and whoever calls them makes
# sure that the ranges lie within the buffers: machine code does not check it.

if sys.implementation.name != "micropython":  # it does not look at types
    from ..cpython import ptr8, ptr16


def add_to_crc(crc: ptr16, data: ptr8, i: int, end: int, low_of: ptr16, high_of: ptr16):
    """Continues the CRC-32 in crc, its low and its high half, with data[i:end]."""
    low = crc[0]
    high = crc[1]
    for i in range(i, end):
        x = (low ^ data[i]) & 255
        y = (x >> 4) + 16
        x &= 15
        low = (low >> 8 | (high & 255) << 8) ^ low_of[x] ^ low_of[y]
        high = high >> 8 ^ high_of[x] ^ high_of[y]
    crc[0] = low
    crc[1] = high


def copy_bytes(page: ptr8, k: int, data: ptr8, i: int, end: int):
    """Copies data[i:end] to page[k:]."""
    for i in range(i, end):
        page[k] = data[i]
        k += 1


def has_taken(data: ptr8, i: int, end: int, page: ptr8, k: int, exact: bool) -> bool:
    """True if data[i:end] is what page[k:] has; not `exact`: at least its zeros."""
    for i in range(i, end):
        b = data[i]
        if not exact:
            b |= page[k]
        if b != page[k]:
            return False
        k += 1
    return True
