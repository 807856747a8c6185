# The partition for the next firmware, and how a release gets there. Loaded while one is fetched. It is used like the
# module slot; its place is the subtype of the partition.
#
# Sector 0 is erased when a fetch begins, and each other one before the first byte is written to the sector in front of
# it. So the first blank sector tells how far a fetch came that was interrupted: only the sector in front of it may be
# incomplete. Firmware may have blank sectors itself; then more is fetched again than is missing.

import hashlib
from binascii import hexlify

from esp32 import Partition

from inflight.compat import const

_SECTOR = const(4_096)
_PIECE = const(512)
_ERASE = const(6)  # ioctl() of a block device
_SHORT = const(16)  # bytes of the SHA-256 of a part that the release tells
_CHIP = const(12)  # offset of the chip's number, 2 bytes, in firmware


class Damaged(Exception):
    """The firmware is not what the release says."""


def target(release):
    """Where the firmware goes that the announcement `release` (a dict) describes. Raises ValueError with the
    reason if it cannot go anywhere."""
    running = Partition(Partition.RUNNING)  # type: ignore[arg-type]
    try:
        part = running.get_next_update()
    except OSError:
        part = None
    if not part or part.info()[1] == running.info()[1]:
        raise ValueError("this device has one partition for firmware: flash it with --ota, once")
    chip = bytearray(2)
    running.readblocks(0, chip, _CHIP)
    if int.from_bytes(chip, "little") != release["chip"]:
        raise ValueError("its firmware is for another chip")
    _, subtype, _, space = part.info()[:4]
    if release["size"] > space:
        raise ValueError("too large: firmware of %d KB, the partition has %d" % (release["size"] >> 10, space >> 10))
    return subtype


def _partition(place):
    return Partition.find(Partition.TYPE_APP, place)[0]


def erase(place):
    """Nothing of the firmware there is used for the next one."""
    _partition(place).ioctl(_ERASE, 0)


class Slot:
    """The partition `place`, for firmware of `size` bytes with this SHA-256. Each `length` bytes have a digest in
    `parts`: whoever sends false bytes costs no more than one part, also at the end."""

    def __init__(self, place, size, digest, length, parts):
        self._place, self._size, self._digest = place, size, digest
        self._length, self._parts = length, parts
        self._part = _partition(place)
        self._have = 0
        self._failed = None  # where the last part began that was damaged
        self.complete = False  # all of it is there
        self.waiting = False  # for bytes of it

    @property
    def wanted(self):
        """(offset, bytes) of what is missing."""
        end = (self._have // self._length + 1) * self._length
        return self._have, min(end, self._size) - self._have

    def step(self):
        """Finds what is missing. Raises OSError."""
        if not (self.waiting or self.complete):
            sector = 0
            while sector * _SECTOR < self._size and not self._is_blank(sector):
                sector += 1
            self._have = max(sector - 1, 0) * _SECTOR
            self.waiting = True

    def _is_blank(self, sector):
        piece = bytearray(_PIECE)
        blank = b"\xff" * _PIECE
        for at in range(0, _SECTOR, _PIECE):
            self._part.readblocks(sector, piece, at)
            if piece != blank:
                return False
        return True

    def take(self, offset, data):
        """Bytes of the firmware. Those that are not the next ones are ignored. Returns True if they were. Raises
        Damaged, OSError."""
        _, size = self.wanted
        if not self.waiting or offset != self._have or len(data) > size:
            return False
        while len(data):
            data = data[self._write(data) :]
            size -= self._have - offset
            offset = self._have
        if not size:
            self._finish()
        return True

    def _write(self, data):
        # What goes into the present sector. Returns how many bytes.
        sector = self._have // _SECTOR
        at = self._have % _SECTOR
        if not at:
            if not self._is_blank(sector):  # the fetch goes on here
                self._part.ioctl(_ERASE, sector)
            if (sector + 1) * _SECTOR < self._size:
                self._part.ioctl(_ERASE, sector + 1)
        n = min(len(data), _SECTOR - at)
        self._part.writeblocks(sector, data[:n], at)
        self._have += n
        return n

    def _finish(self):
        number = (self._have - 1) // self._length
        begin = number * self._length
        if str(hexlify(self._sha256(begin)[:_SHORT]), "ascii") == self._parts[number]:
            if self._have < self._size:
                return
            begin = 0  # all of it again, if something else went wrong
            self.complete = self._sha256(0) == self._digest
        self.waiting = False
        if self.complete:
            return
        self._part.ioctl(_ERASE, begin // _SECTOR)  # the fetch goes on here
        if self._failed == begin:
            raise Damaged("firmware")
        self._failed = begin

    def _sha256(self, begin):
        # Of what is there from `begin` on.
        sha = hashlib.sha256()
        piece = memoryview(bytearray(_PIECE))
        for at in range(begin, self._have, _PIECE):
            n = min(self._have - at, _PIECE)
            self._part.readblocks(at // _SECTOR, piece[:n], at % _SECTOR)
            sha.update(piece[:n])
        return sha.digest()

    def close(self):
        """All that came is in flash."""

    def verify(self):
        """Nothing has changed since all of it was read; the bootloader verifies it, too."""
