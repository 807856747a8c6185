"""A lock that the kernel releases when the process ends, so no stale lock can stay."""

import fcntl
import os


class Busy(Exception):
    """Another process has the lock. The text says what to do."""


def take_lock(path, advice):
    """Returns the descriptor of the locked file `path`, which is made if it is missing: os.close() releases it. Raises
    Busy with the text `advice`."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Busy(advice) from None
    return fd
