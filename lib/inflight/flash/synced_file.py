# Writing to a file: all of it or an error; and a file of which nothing that was written is lost to a sync that failed.
#
# A sync that fails tells that the disk lacks something of what was written since the sync before. Linux forgets what
# that is: a later sync succeeds without it, and reads find it in memory until the power is cut. So File keeps what it
# writes until a sync has succeeded. After one that failed all of that is written again, and has to be synced, before
# anything is read or written.

import os
import sys
from errno import EACCES, EIO
from struct import pack_into, unpack_from

from ..compat import const

_LOG = const(1024)  # bytes of what is not synced
_ENTRY = const(6)  # in front of the bytes of one write: their address, and how many they are
_CHUNK = const(64)


def write(file, data, i, n):
    """Writes data[i : i + n] to `file`. What a write() leaves is written by the next one. Raises OSError: also if the
    file takes no more."""
    while n:
        if sys.implementation.name == "micropython":
            done = file.write(data, i, n)
        else:
            done = file.write(memoryview(data)[i : i + n])
        if not done:
            raise OSError(EIO, "the file takes no more: %d bytes were not written" % n)
        i += done
        n -= done


class File:
    """What a FileFlash needs of the open file `file`. Raises OSError."""

    def __init__(self, file):
        self.file = file
        self._offset = 0
        self._log = bytearray(_LOG)  # what was written since the last sync, one entry after the other
        self._size = 0  # bytes of it
        self._whole = True  # the file, as it is read, has all of that

    def seek(self, at):
        self._offset = at

    def readinto(self, buf):
        self.recover()
        self.file.seek(self._offset)
        if self.file.readinto(buf) != len(buf):
            raise OSError(EIO, "the file is shorter than it was")

    def write(self, data, i, n):
        """Writes data[i : i + n]."""
        self.recover()
        while n:
            k = self._size
            part = min(n, _LOG - k - _ENTRY)
            if part <= 0:
                self.flush()
                continue
            self._whole = False
            log = self._log
            pack_into("<IH", log, k, self._offset, part)
            k += _ENTRY
            for j in range(part):
                log[k + j] = data[i + j]
            self._size = k + part
            self.file.seek(self._offset)
            write(self.file, data, i, part)
            self._whole = True
            self._offset += part
            i += part
            n -= part

    def flush(self):
        """All is on the disk."""
        self.recover()
        self._whole = False
        self._sync()
        self._size = 0
        self._whole = True

    def recover(self):
        """Writes and syncs it all once more after a sync or a write that failed, or was interrupted. Raises OSError."""
        if self._whole:
            return
        k = 0
        while k < self._size:
            at, n = unpack_from("<IH", self._log, k)
            k += _ENTRY
            self.file.seek(at)
            write(self.file, self._log, k, n)
            k += n
        self._sync()
        self._size = 0
        self._whole = True

    def _sync(self):
        # MicroPython's flush() is an fsync. CPython's writes are unbuffered and need one.
        if sys.implementation.name == "micropython":
            self.file.flush()
        else:
            os.fsync(self.file.fileno())

    def rewrite(self, size):
        """Writes what is read in the file once more, and syncs it."""
        chunk = bytearray(_CHUNK)
        for at in range(0, size, _CHUNK):
            self._offset = at
            self.readinto(chunk)
            self.file.seek(at)
            write(self.file, chunk, 0, _CHUNK)
        self._sync()

    def close(self):
        self.file.close()

    def leave(self):
        """This process is a child, which has no part in the lock: its descriptor would keep the lock when the parent
        has ended."""
        self.close()
        self.file = _Foreign()


class _Foreign:
    # In place of the file, in a child process.

    def seek(self, at):
        raise OSError(EACCES, "a FileFlash belongs to the process that opened it: open another file in its children")

    def close(self):
        pass
