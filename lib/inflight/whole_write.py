# Writing to a file, all of it or an error.

import sys
from errno import EIO

_MICRO = sys.implementation.name == "micropython"


def write(file, data, i, n):
    """Writes data[i : i + n] to `file`. What a write() leaves is written by the next one. Raises OSError: also if the
    file takes no more."""
    while n:
        done = file.write(data, i, n) if _MICRO else file.write(memoryview(data)[i : i + n])
        if not done:
            raise OSError(EIO, "the file takes no more: %d bytes were not written" % n)
        i += done
        n -= done
