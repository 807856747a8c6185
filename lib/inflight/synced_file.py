# A file of which nothing that was written is lost to a sync that failed.
#
# A sync that fails tells that the disk lacks something of what was written since the sync before. Linux forgets what
# that is: a later sync succeeds without it, and reads find it in memory until the power is cut. So File keeps what it
# writes until a sync has succeeded. After one that failed all of that is written again, and has to be synced, before
# anything is read or written.

import os
import sys
from errno import EACCES, EIO
from struct import pack_into, unpack_from

from .compat import const
from .whole_write import write

_MICRO = sys.implementation.name == "micropython"
_LOG = const(1024)  # bytes of what is not synced
_ENTRY = const(6)  # in front of the bytes of one write: their address, and how many they are
_CHUNK = const(64)


class File:
    """What a FileFlash needs of the open file `raw`. Raises OSError."""

    def __init__(self, raw):
        self._raw = raw
        self._at = 0
        self._log = bytearray(_LOG)  # what was written since the last sync, one entry after the other
        self._logged = 0
        self._whole = True  # the file, as it is read, has all of that

    def seek(self, at):
        self._at = at

    def readinto(self, buf):
        self._complete()
        self._raw.seek(self._at)
        if self._raw.readinto(buf) != len(buf):
            raise OSError(EIO, "the file is shorter than it was")

    def write(self, data, i, n):
        """Writes data[i : i + n]."""
        self._complete()
        while n:
            k = self._logged
            part = min(n, _LOG - k - _ENTRY)
            if part <= 0:
                self.flush()
                continue
            self._whole = False
            log = self._log
            pack_into("<IH", log, k, self._at, part)
            k += _ENTRY
            for j in range(part):
                log[k + j] = data[i + j]
            self._logged = k + part
            self._raw.seek(self._at)
            write(self._raw, data, i, part)
            self._whole = True
            self._at += part
            i += part
            n -= part

    def flush(self):
        """All is on the disk."""
        self._complete()
        self._whole = False
        self._sync()
        self._logged = 0
        self._whole = True

    def _complete(self):
        # After a sync or a write that failed, or was interrupted.
        if self._whole:
            return
        k = 0
        while k < self._logged:
            at, n = unpack_from("<IH", self._log, k)
            k += _ENTRY
            self._raw.seek(at)
            write(self._raw, self._log, k, n)
            k += n
        self._sync()
        self._logged = 0
        self._whole = True

    def _sync(self):
        # MicroPython's flush() is an fsync. CPython's writes are unbuffered and need one.
        if _MICRO:
            self._raw.flush()
        else:
            os.fsync(self._raw.fileno())

    def rewrite(self, size):
        """Writes what is read in the file once more, and syncs it."""
        chunk = bytearray(_CHUNK)
        for at in range(0, size, _CHUNK):
            self._at = at
            self.readinto(chunk)
            self._raw.seek(at)
            write(self._raw, chunk, 0, _CHUNK)
        self._sync()

    def close(self):
        self._raw.close()

    def leave(self):
        """This process is a child, which has no part in the lock: its descriptor would keep the lock when the parent
        has ended."""
        self.close()
        self._raw = _Foreign()


class _Foreign:
    # In place of the file, in a child process.

    def seek(self, at):
        raise OSError(EACCES, "a FileFlash belongs to the process that opened it: open another file in its children")

    def close(self):
        pass
