# The file of a FileFlash on an operating system: one user at a time, names that last, and a sync that failed. A port
# without flock() has no lock: CPython elsewhere than on Unix, and MicroPython without ffi, as on boards, where there is
# one process anyway.
#
# A sync that fails tells that the disk lacks something of what was written since the sync before. Linux forgets what
# that is: a later sync succeeds without it, and reads find it in memory until the power is cut. So File keeps what it
# writes until a sync has succeeded. After one that failed all of that is written again, and has to be synced, before
# anything is read or written. What a process before this one left in memory alone is unknown: the whole file is written
# again when it is opened.

import os
import sys
from errno import EACCES, EAGAIN, EIO
from struct import pack_into, unpack_from

from .arguments import text
from .compat import const
from .whole_write import write

_MICRO = sys.implementation.name == "micropython"
_LOCK_EX_NB = const(6)  # LOCK_EX | LOCK_NB
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


def open_flash(flash, path):
    """Returns the File of a FileFlash, locked; it is made if it does not exist. Raises OSError, EAGAIN if it is in use;
    ValueError if it has another size."""
    text("path", path)
    size = flash._blocks * flash._size
    raw = None
    while not raw:
        raw = _open_locked(path) or _make(path, size)
    try:
        found = raw.seek(0, 2)
        if found != size:
            raise ValueError("%s has %d bytes, not %d x %d" % (path, found, flash._blocks, flash._size))
        file = File(raw)
        file.rewrite(size)
    except BaseException:
        raw.close()
        raise
    if hasattr(os, "register_at_fork"):
        _leave_in_children(file)
    return file


def _open_locked(path):
    # Opens the file and locks it, until it is closed or the process ends, however it does. Returns None if there is no
    # file. The lock is that of the file itself, whatever its names are.
    try:
        raw = _open(path, "r+b")
    except OSError:
        if _stat(path):
            raise
        return None
    try:
        if _lock(raw, path):
            return raw
    except BaseException:
        raw.close()
        raise
    raw.close()
    return _open_locked(path)  # it was replaced just now


def _make(path, size):
    # Makes the file under another name first: a file cut short by the power must not stand in the way. Returns it,
    # locked, or None: another process was quicker.
    new = path + ".new"
    _open(new, "ab").close()  # as it is, if it is there: its lock tells whether somebody fills it
    raw = _open_locked(new)
    if not raw:
        return None
    try:
        if _stat(path) or raw.seek(0, 2) > size:
            os.remove(new)
            raw.close()
            return None
        raw.seek(0)
        blank = b"\xff" * _CHUNK
        for _ in range(size // _CHUNK):
            write(raw, blank, 0, _CHUNK)
        File(raw).flush()
        os.rename(new, path)
        sync_folder(path)
    except BaseException:
        raw.close()
        raise
    return raw


def _open(path, mode):
    return open(path, mode) if _MICRO else open(path, mode, 0)


def _stat(path):
    # None: there is no file.
    try:
        return os.stat(path)
    except OSError:
        return None


def _flock():
    # flock() of C, or None.
    try:
        from fcntl import flock

        return flock
    except ImportError:
        pass
    try:
        import ffi

        flock = ffi.open(None).func("i", "flock", "ii")
    except (ImportError, OSError):
        return None

    def checked(fd, operation):
        if flock(fd, operation):
            raise OSError(os.errno())

    return checked


def _lock(raw, path):
    # Returns False if `path` is the name of another file by now. Raises OSError: EAGAIN if it is locked.
    flock = _flock()
    if not flock:
        return True
    fd = raw.fileno()
    try:
        flock(fd, _LOCK_EX_NB)
    except OSError as e:
        if e.errno != EAGAIN:
            raise
        raise OSError(EAGAIN, "%s is in use: stop the other program, or give this one a file of its own" % path)
    locked = os.stat("/dev/fd/%d" % fd) if _MICRO else os.fstat(fd)
    named = _stat(path)
    return bool(named) and named[1:3] == locked[1:3]  # inode and device


def _leave_in_children(file):
    import weakref

    reference = weakref.ref(file)

    def leave():
        file = reference()
        if file:
            file.leave()

    os.register_at_fork(after_in_child=leave)


def sync_folder(path):
    """Makes the name of the file `path` durable. Raises OSError."""
    folder = path[: path.rfind("/") + 1] or "."
    if _MICRO:
        try:
            file = open(folder, "rb")
        except OSError:
            return  # no POSIX: rename() is durable itself, or nothing can be done
        file.flush()  # an fsync
        file.close()
    elif os.name == "posix":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
