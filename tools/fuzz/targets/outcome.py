"""Shared by the fuzzers' targets. A target is a module with run(data), whose docstring describes the input. run()
raises Finding if a promise is broken, and returns a number that represents the outcome, the same on every interpreter.
Any other exception is a finding too."""

import sys
from binascii import crc32

# References that need CPython's strict checks (of UTF-8) run there only; the numbers carry their result elsewhere.
STRICT = sys.implementation.name != "micropython"


class Finding(Exception):
    """This input breaks a promise."""


def demand(holds, says, *values):
    if not holds:
        raise Finding(says % values)


class Outcome:
    """A number computed from everything that was noted, in order."""

    def __init__(self):
        self.number = 0

    def note(self, *values):
        for value in values:
            if value is None:
                value = b"-;"
            elif not isinstance(value, (bytes, bytearray)):
                value = ("%d;" % int(value)).encode()
            self.number = crc32(value, self.number)


class Reader:
    """Reads an input; zeros follow its end."""

    def __init__(self, data):
        self._data = data
        self._at = 0
        self.size = len(data)

    @property
    def left(self):
        return max(0, len(self._data) - self._at)

    def byte(self):
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def word(self):
        return self.byte() << 8 | self.byte()

    def bytes(self, n):
        n = min(n, self.left)
        self._at += n
        return self._data[self._at - n : self._at]
