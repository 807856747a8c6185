# Block devices of a file and of RAM, with the extended block protocol as journal wants it:
# ioctl(6) erases a block. Instead of writeblocks() they have program(at, buf, off, n), which
# writes n bytes of buf anywhere. Partitions and pinned files come from the boards.

import io
import sys

from ..compat import const

_MICRO = sys.implementation.name == "micropython"
_CHUNK = const(64)


class FileFlash:
    """A file of `blocks` blocks of `block_size` bytes, durable when ioctl(3) returns. It is made if
    it does not exist. It has one user at a time, until close() or the end of the process: the file is
    locked, and a process that is forked has no part in it. For a Linux box: a board's littlefs copies most
    of such a file at each write, there the journal wants raw blocks. Raises OSError, EAGAIN if it is in
    use; ValueError if it has another size."""

    page = 64
    volatile = False
    _file = None

    def __init__(self, path, blocks=16, block_size=4096):
        self._prepare(blocks, block_size)
        from .posix import open_flash

        self._file = open_flash(self, path)

    def _prepare(self, blocks, block_size):
        from ..arguments import blocks as check

        check(blocks, block_size, _CHUNK)
        self._blocks = blocks
        self._size = block_size
        self._blank = b"\xff" * _CHUNK

    def readblocks(self, block, buf, offset=0):
        self._file.seek(block * self._size + offset)
        self._file.readinto(buf)

    def program(self, at, buf, off, n):
        self._file.seek(at)
        self._write(buf, off, n)

    def _write(self, buf, off, n):
        self._file.write(buf, off, n)

    def ioctl(self, op, arg):
        if op == 3:
            self._file.flush()
        elif op == 4:
            return self._blocks
        elif op == 5:
            return self._size
        elif op == 6:
            self._file.seek(arg * self._size)
            for _ in range(self._size // _CHUNK):
                self._write(self._blank, 0, _CHUNK)
        return 0

    def close(self):
        if self._file:
            self._file.close()


class RamFlash(FileFlash):
    """`blocks` blocks of RAM: a journal that lasts until the power goes."""

    volatile = True

    def __init__(self, blocks=4, block_size=1024):
        self._prepare(blocks, block_size)
        self._file = io.BytesIO()
        for i in range(blocks):
            self.ioctl(6, i)

    def _write(self, buf, off, n):
        if _MICRO:
            self._file.write(buf, off, n)
        else:
            self._file.write(memoryview(buf)[off : off + n])
