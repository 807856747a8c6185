# The partition for the next firmware, and how a release gets there. Loaded while one is fetched. It is used like the
# module slot; its place is the subtype of the partition.
#
# Sector 0 is erased when a fetch begins, and each other one before the first byte is written to the sector in front of
# it. So the first blank sector tells how far a fetch came that was interrupted: only the sector in front of it may be
# incomplete. Firmware may have blank sectors itself; then more is fetched again than is missing.

import hashlib

from esp32 import Partition

from inflight.compat import const

_SECTOR = const(4_096)
_PIECE = const(512)
_ERASE = const(6)  # ioctl() of a block device
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
    """The partition `place`, for firmware of `size` bytes with this SHA-256."""

    def __init__(self, place, size, digest):
        self._place, self._size, self._digest = place, size, digest
        self._part = _partition(place)
        self._have = 0
        self._failures = 0
        self.complete = False  # all of it is there
        self.waiting = False  # for bytes of it

    @property
    def wanted(self):
        """(offset, bytes) of what is missing."""
        return self._have, self._size - self._have

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
        if not self.waiting or offset != self._have or len(data) > self._size - offset:
            return False
        while len(data):
            data = data[self._write(data) :]
        if self._have == self._size:
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
        self.waiting = False
        self.complete = self._is_right()
        if self.complete:
            return
        erase(self._place)
        self._failures += 1
        if self._failures > 1:
            raise Damaged("firmware")

    def _is_right(self):
        sha = hashlib.sha256()
        piece = memoryview(bytearray(_PIECE))
        for at in range(0, self._size, _PIECE):
            n = min(self._size - at, _PIECE)
            self._part.readblocks(at // _SECTOR, piece[:n], at % _SECTOR)
            sha.update(piece[:n])
        return sha.digest() == self._digest

    def close(self):
        """All that came is in flash."""

    def verify(self):
        """Nothing has changed since all of it was read; the bootloader verifies it, too."""
