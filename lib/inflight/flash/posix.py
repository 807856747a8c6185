# The file of a FileFlash on an operating system: one user at a time, and names that last. Needed once at a start. A
# port without flock() has no lock: CPython elsewhere than on Unix, and MicroPython without ffi, as on boards, where
# there is one process anyway. What a process before this one left in memory alone is unknown, so the whole file is
# written again when it is opened.

import os
import sys
from errno import EAGAIN

from ..arguments import text
from ..compat import const
from .synced_file import File, write

_LOCK_EX_NB = const(6)  # LOCK_EX | LOCK_NB
_CHUNK = const(64)


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
            raise ValueError("%s has %d bytes, not %d x %d" % (path, found, flash._blocks, flash._size))
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
