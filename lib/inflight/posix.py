# How FileFlash opens its file, and what it asks of an operating system below: one user at a time, and names that last.
# Needed once at a start. A port without flock() has no lock: CPython elsewhere than on Unix, and
# MicroPython without ffi, as on boards, where there is one process anyway.

import os
import sys
from errno import EAGAIN

from .arguments import text

_LOCK_EX_NB = 6  # LOCK_EX | LOCK_NB


def open_flash(flash, path):
    """Returns the file of a FileFlash, open; it is made if it does not exist."""
    text("path", path)
    flash._lock = lock(path)
    size = flash._blocks * flash._size
    try:
        found = os.stat(path)[6]
    except OSError:
        # Under another name first: a file cut short by the power must not stand in the way.
        with _open(path + ".new", "wb") as flash._file:
            flash._fill()
        os.rename(path + ".new", path)
        sync_folder(path)
        found = size
    if found != size:
        raise ValueError("%s has %d bytes, not %d x %d" % (path, found, flash._blocks, flash._size))
    return _open(path, "r+b")


def _open(path, mode):
    return open(path, mode) if sys.implementation.name == "micropython" else open(path, mode, 0)


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


def lock(path):
    """Locks the file `path` + ".lock" for as long as what it returns is open: until the process
    ends, however it does. Returns None where a port has no locks. Raises OSError: EAGAIN if it is locked."""
    flock = _flock()
    if not flock:
        return None
    file = open(path + ".lock", "ab")
    try:
        flock(file.fileno(), _LOCK_EX_NB)
    except OSError as e:
        file.close()
        if e.errno != EAGAIN:
            raise
        raise OSError(EAGAIN, "%s is in use: stop the other program, or give this one a file of its own" % path)
    return file


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
    elif os.name == "posix":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
