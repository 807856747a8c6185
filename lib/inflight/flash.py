# Block devices with the extended block protocol, as journal wants them: writeblocks() programs one
# aligned page and only clears bits, ioctl(6) erases a block. Partitions and pinned files
# come from the boards.

import os


class RamFlash:
    """`blocks` blocks of RAM: a journal that lasts until the power goes."""

    page = 64

    def __init__(self, blocks=4, block_size=1024):
        self._blocks = blocks
        self._size = block_size
        self._data = bytearray(b"\xff" * (blocks * block_size))

    def readblocks(self, block, buf, offset=0):
        data = self._data
        at = block * self._size + offset
        for i in range(len(buf)):
            buf[i] = data[at + i]

    def writeblocks(self, block, buf, offset=0):
        data = self._data
        at = block * self._size + offset
        for i in range(len(buf)):
            data[at + i] &= buf[i]

    def ioctl(self, op, arg):
        if op == 4:
            return self._blocks
        if op == 5:
            return self._size
        if op == 6:
            at = arg * self._size
            for i in range(self._size):
                self._data[at + i] = 0xFF
        return 0


class FileFlash:
    """A file of `blocks` blocks, durable when ioctl(3) returns. Raises OSError, ValueError if the
    file has another size."""

    page = 64

    def __init__(self, path, blocks=16, block_size=4096):
        self._blocks = blocks
        self._size = block_size
        self._old = bytearray(self.page)
        self._file = _open(path, blocks * block_size)

    def readblocks(self, block, buf, offset=0):
        self._file.seek(block * self._size + offset)
        self._file.readinto(buf)

    def writeblocks(self, block, buf, offset=0):
        # As flash does: bits are only cleared.
        old = self._old
        at = block * self._size + offset
        self._file.seek(at)
        self._file.readinto(old)
        for i in range(len(old)):
            old[i] &= buf[i]
        self._file.seek(at)
        self._file.write(old)

    def ioctl(self, op, arg):
        if op == 3:
            _sync(self._file)
        elif op == 4:
            return self._blocks
        elif op == 5:
            return self._size
        elif op == 6:
            for i in range(len(self._old)):
                self._old[i] = 0xFF
            self._file.seek(arg * self._size)
            for _ in range(self._size // len(self._old)):
                self._file.write(self._old)
        return 0

    def close(self):
        self._file.close()


def _sync(file):
    # MicroPython's flush() is an fsync; CPython's writes are unbuffered and need one.
    if hasattr(os, "fsync"):
        os.fsync(file.fileno())
    else:
        file.flush()


def _open(path, size):
    try:
        length = os.stat(path)[6]
    except OSError:
        _create(path, size)
        length = size
    if length != size:
        raise ValueError("%s has %d bytes, not %d: move it away, or give its size" % (path, length, size))
    return open(path, "r+b", 0) if hasattr(os, "fsync") else open(path, "r+b")


def _create(path, size):
    # Under another name first: a file cut short by the power must not stand in the way.
    blank = b"\xff" * 1024
    with open(path + ".new", "wb") as f:
        for _ in range(size // 1024):
            f.write(blank)
        _sync(f)
    os.rename(path + ".new", path)
