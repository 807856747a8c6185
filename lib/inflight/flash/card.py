# A journal on an SD card, or on any block device whose blocks of 512 bytes are written over without
# an erase. A power cut may leave anything at all in the block that is being written, and most blocks
# that a journal writes have records in them that were durable long before. So a block is written twice:
# first as a copy, then a header that tells where it belongs, then in its place. Power cut before the header
# is whole leaves the block as it was; afterwards the copy is whole, and is written again at the next start.

from array import array
from errno import EIO
from struct import pack_into, unpack_from

from ..arguments import number
from ..compat import const
from ..journal.pages import CRC_HIGH, CRC_LOW, CRC_START, add_to_crc, copy_bytes

_BLOCK = const(512)
_HEADER = const(0)  # blocks of the region: this one,
_COPY = const(1)  # the copy,
_FIRST = const(2)  # and the sectors
_FORMAT = "<IIHHHH"  # of the header: _MAGIC, block of the region, CRC-32 of the copy, CRC-32 of what is before it
_MAGIC = const(0x31434649)  # IFC1
_SUMMED = const(12)  # bytes of the header that its CRC is of
_MARK = const(510)  # where 55 AA tells that block 0 has a table of partitions, or begins a file system,
_TABLE = const(446)  # and that table
_LEAST = const(256)  # blocks in front of the region, where file systems begin:
_BEGINNINGS = (0, 1, 2, 64, 128)  # their first blocks, and those of volumes; those of most others are in front, too


class CardFlash:
    """A block device for journals: `n` sectors of `size` bytes on the memory card `card`, two blocks more than that,
    from its block `first` on, 256 or more. `card` has readblocks(block, buf), writeblocks(block, buf) and
    ioctl(op, arg) of MicroPython's simple block protocol, and blocks of 512 bytes: sdcard.SDCard, machine.SDCard. A
    power cut may spoil the block that is being written; cards that spoil others are not fit for a journal. What was in
    the region is lost, so it must lie outside of every partition. Takes one buffer of 512 bytes.
    Raises ValueError if the card ends in front of the region's end, or files may be there: in a partition, a FAT, exFAT
    or NTFS, or on a card that begins with anything else that is not blank; OSError."""

    page = 64

    def __init__(self, card, first, n=256, size=4096):
        number("first", first, _LEAST, 0x3FFFFFFF)
        number("n", n, 3, 65535)
        number("size", size, _BLOCK, 65536, " bytes")
        if size % _BLOCK:
            raise ValueError("size: write a multiple of 512 bytes, not %d" % size)
        self._card = card
        self._first = first
        self._n = n
        self._size = size
        self._buf = bytearray(_BLOCK)
        self._crc = array("H", bytes(4))
        self._block = -1  # of the region: what is in the buffer; -1: nothing
        self._dirty = False  # the card does not have it yet
        self._whole = False  # no block has been written in part
        self._lost = False  # what was in the buffer, by an error of which only a reader knows
        self._end = _FIRST + n * (size // _BLOCK)
        check_region(card, first, self._end, self._buf)
        self._recover()

    def _sum(self, n):
        # The CRC of the first n bytes of the buffer, in halves: one number of 32 bits would take heap.
        self._crc[0] = self._crc[1] = CRC_START
        add_to_crc(self._crc, self._buf, 0, n, CRC_LOW, CRC_HIGH)

    def _get(self, block):
        self._block = -1
        check(self._card.readblocks(self._first + block, self._buf))
        self._block = block

    def _put(self, block):
        check(self._card.writeblocks(self._first + block, self._buf))

    def _recover(self):
        # Finishes what a power cut, or an error, interrupted. What was not on the card whole is gone.
        if self._whole:
            return
        crc = self._crc
        self._dirty = False
        self._get(_HEADER)
        magic, block, low, high, header_low, header_high = unpack_from(_FORMAT, self._buf, 0)
        self._sum(_SUMMED)
        # (A region that ended elsewhere may have been here.)
        if magic == _MAGIC and header_low == crc[0] and header_high == crc[1] and _FIRST <= block < self._end:
            self._get(_COPY)
            self._sum(_BLOCK)
            if low == crc[0] and high == crc[1]:
                self._put(block)
                check(self._card.ioctl(3, 0))
        self._whole = True

    def _flush(self):
        # The card has what is in the buffer.
        self._recover()
        if not self._dirty:
            return
        buf = self._buf
        crc = self._crc
        block = self._block
        self._whole = False
        self._sum(_BLOCK)
        self._put(_COPY)
        self._block = -1
        pack_into(_FORMAT, buf, 0, _MAGIC, block, crc[0], crc[1], 0, 0)
        self._sum(_SUMMED)
        pack_into("<HH", buf, _SUMMED, crc[0], crc[1])
        self._put(_HEADER)
        check(self._card.ioctl(3, 0))
        self._get(_COPY)
        self._put(block)
        check(self._card.ioctl(3, 0))
        self._block = block
        self._dirty = False
        self._whole = True

    def _load(self, block):
        if block != self._block or not self._whole:
            self._flush()
            self._get(block)

    def readblocks(self, block, buf, offset=0):
        offset += block * self._size
        block = _FIRST + offset // _BLOCK
        offset %= _BLOCK
        dirty = self._dirty
        try:
            self._fill(block, buf, offset)
        except BaseException:
            # The writer is told at its next operation.
            self._lost = self._lost or (dirty and not self._whole)
            raise

    def _fill(self, block, buf, offset):
        end = len(buf)
        if end == _BLOCK and not offset and block != self._block:
            self._flush()
            check(self._card.readblocks(self._first + block, buf))
            return
        k = 0
        while k < end:
            part = min(end - k, _BLOCK - offset)
            self._load(block)
            copy_bytes(buf, k, self._buf, offset, offset + part)
            k += part
            block += 1
            offset = 0

    def _tell_lost(self):
        if self._lost:
            self._lost = False
            raise OSError(EIO, "the memory card failed: what was written last is lost")

    def program(self, at, buf, off, n):
        self._tell_lost()
        block = _FIRST + at // _BLOCK
        at %= _BLOCK
        while n:
            part = min(n, _BLOCK - at)
            self._load(block)
            self._dirty = True
            copy_bytes(self._buf, at, buf, off, off + part)
            off += part
            n -= part
            block += 1
            at = 0

    def ioctl(self, op, arg):
        if op == 3:
            self._tell_lost()
            self._flush()
        elif op == 4:
            return self._n
        elif op == 5:
            return self._size
        elif op == 6:
            self._erase(arg)
        return 0

    def _erase(self, sector):
        self._tell_lost()
        self._flush()
        buf = self._buf
        self._block = -1
        for k in range(_BLOCK):
            buf[k] = 0xFF
        # The copy may be of a block of this sector, and is not to be written again.
        self._put(_HEADER)
        check(self._card.ioctl(3, 0))
        n = self._size // _BLOCK
        for block in range(_FIRST + sector * n, _FIRST + (sector + 1) * n):
            self._put(block)
        check(self._card.ioctl(3, 0))


def check(done):
    """Raises OSError if `done` is what a driver returns for a failure: False, or a number that is not 0."""
    if done is False or (done.__class__ is int and done):
        raise OSError(EIO, "the memory card failed")


# --- somebody else's files ---


def check_region(card, first, n, buf):
    """Raises ValueError if `n` blocks of `card` from `first` on are not there, or files may be in them. Of a card that
    does not tell where its files are, nothing is taken."""
    end = first + n
    blocks = card.ioctl(4, 0)
    if blocks.__class__ is not int or end > blocks:
        raise ValueError("card: has %s blocks, the journal needs %d from block %d on" % (blocks, n, first))
    check(card.readblocks(0, buf))
    known = files_in(buf) if buf[_MARK] == 0x55 and buf[_MARK + 1] == 0xAA else ()
    for begin, behind in known:
        if begin < end and first < behind:
            raise ValueError(
                "first: the journal would be in blocks %d to %d, but files are in %d to %d: shrink their partition"
                % (first, end - 1, begin, behind - 1)
            )
    for block in _BEGINNINGS:
        if not any(begin <= block < behind for begin, behind in known):
            check(card.readblocks(block, buf))
            if any(b != buf[0] for b in buf):
                raise ValueError(
                    "card: nothing tells where the files are that block %d belongs to: make a partition for them, or"
                    " write 512 zeros there if there are none" % block
                )


def files_in(record):
    """[(begin, behind)] of what block 0 tells, its boot record or table of partitions: blocks with files. It may have
    both, where one is of an earlier time."""
    known = []
    if record[3:8] == b"EXFAT":
        known.append((0, unpack_from("<Q", record, 72)[0]))
    elif record[3:7] == b"NTFS":
        known.append((0, unpack_from("<Q", record, 40)[0] + 1))  # a copy of block 0 is behind it
    elif record[11:13] == b"\0\x02" and record[16] in (1, 2):  # FAT: bytes of a block, number of tables
        known.append((0, unpack_from("<H", record, 19)[0] or unpack_from("<I", record, 32)[0]))
    if any(record[i] & 0x7F for i in range(_TABLE, _MARK, 16)):
        return known  # it has code or a text there
    known.append((0, 1))
    for i in range(_TABLE, _MARK, 16):
        begin, size = unpack_from("<II", record, i + 8)
        if record[i + 4]:
            known.append((begin, begin + size))
    return known
