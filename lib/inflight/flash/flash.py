# Block devices of a file and of RAM, with the extended block protocol as journal wants it:
# ioctl(6) erases a block. Instead of writeblocks() they have program(at, buf, off, n), which
# writes n bytes of buf anywhere. Partitions and pinned files come from the boards.

import io
import os
import sys
from errno import EACCES, EAGAIN, EIO
from struct import pack_into, unpack_from

from ..arguments import text
from ..compat import const

_MICRO = sys.implementation.name == "micropython"
_CHUNK = const(64)


class FileFlash:
    """A file of `blocks` blocks of `block_size` bytes, durable when ioctl(3) returns. It is made if it does not exist.
    It has one user at a time, until close() or the end of the process: the file is locked, and a process that is forked
    has no part in it. For a Linux box: a board's littlefs copies most of such a file at each write, there the journal
    wants raw blocks. Raises OSError, EAGAIN if it is in use; ValueError if it has another size."""

    page = 64
    volatile = False
    _file = None

    def __init__(self, path, blocks=16, block_size=4096):
        self._prepare(blocks, block_size)
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


# --- a file of which nothing that was written is lost to a sync that failed ---
# A sync that fails tells that the disk lacks something of what was written since the sync before. Linux forgets what
# that is: a later sync succeeds without it, and reads find it in memory until the power is cut. So File keeps what it
# writes until a sync has succeeded. After one that failed all of that is written again, and has to be synced, before
# anything is read or written.

_LOG = const(1024)  # bytes of what is not synced
_ENTRY = const(6)  # in front of the bytes of one write: their address, and how many they are


def write(file, data, i, n):
    """Writes data[i : i + n] to `file`. What a write() leaves is written by the next one. Raises OSError: also if the
    file takes no more."""
    while n:
        if sys.implementation.name == "micropython":
            done = file.write(data, i, n)
        else:
            done = file.write(memoryview(data)[i : i + n])
        if not done:
            raise OSError(EIO, "%d bytes were not written: make space on the disk" % n)
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
            raise OSError(EIO, "the file of the journal was shortened: leave it alone")

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


# --- the file of a FileFlash on an operating system: one user at a time, and names that last ---
# A port without flock() has no lock: CPython elsewhere than on Unix, and MicroPython without ffi, as on boards, where
# there is one process anyway. What a process before this one left in memory alone is unknown, so the whole file is
# written again when it is opened.

_LOCK_EX_NB = const(6)  # LOCK_EX | LOCK_NB


def open_flash(flash, path):
    """Returns the File of a FileFlash, locked; it is made if it does not exist. Raises OSError, EAGAIN if it is in use;
    ValueError if it has another size."""
    text("path", path)
    size = flash._blocks * flash._size
    raw = None
    while not raw:
        raw = _open_locked(path) or _create(path, size)
    try:
        found = raw.seek(0, 2)
        if found != size:
            raise ValueError(
                "%s has %d bytes, not %d x %d: give the size that it had" % (path, found, flash._blocks, flash._size)
            )
        file = File(raw)
        if hasattr(raw, "fileno"):  # else no operating system keeps anything in memory
            file.rewrite(size)
    except BaseException:
        raw.close()
        raise
    if sys.implementation.name != "micropython":
        from ..cpython import leave_in_children

        leave_in_children(file)
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


def _create(path, size):
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
        try:
            raw.seek(0)
            blank = b"\xff" * _CHUNK
            for _ in range(size // _CHUNK):
                write(raw, blank, 0, _CHUNK)
            File(raw).flush()
        except OSError:
            os.remove(new)  # there is no space
            raise
        os.rename(new, path)
        sync_folder(path)
    except BaseException:
        raw.close()
        raise
    return raw


def _open(path, mode):
    if sys.implementation.name == "micropython":
        return open(path, mode)
    else:
        return open(path, mode, 0)


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
    if not (flock and hasattr(raw, "fileno")):  # nor have files of a file system of MicroPython's own
        return True
    fd = raw.fileno()
    try:
        flock(fd, _LOCK_EX_NB)
    except OSError as e:
        if e.errno != EAGAIN:
            raise
        raise OSError(EAGAIN, "%s is in use: stop the other program, or give this one a file of its own" % path)
    if sys.implementation.name == "micropython":
        locked = _stat("/dev/fd/%d" % fd)  # None: the file system is MicroPython's own
    else:
        locked = os.fstat(fd)
    named = _stat(path)
    return not locked or (bool(named) and named[1:3] == locked[1:3])  # inode and device


def sync_folder(path):
    """Makes the name of the file `path` durable. Raises OSError."""
    folder = path[: path.rfind("/") + 1] or "."
    if sys.implementation.name == "micropython":
        try:
            file = open(folder, "rb")
        except OSError:
            return  # no POSIX: rename() is durable itself, or nothing can be done
        file.flush()  # an fsync
        file.close()
    else:
        from ..cpython import sync_folder

        sync_folder(folder)
