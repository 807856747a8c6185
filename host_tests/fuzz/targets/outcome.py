"""What every target of the fuzzers is made with. A target is a module with run(data): it does with the bytes `data`
what its first lines say, raises Finding if a promise is broken, and returns a number that tells what came of it, the
same on every interpreter. Whatever else it raises is a finding too."""

import sys
from binascii import crc32

# References that lean on CPython's own strictness (UTF-8, say) run there alone; the numbers carry their verdict over.
STRICT = sys.implementation.name != "micropython"


class Finding(Exception):
    """A promise that this input breaks."""


def demand(holds, says, *values):
    if not holds:
        raise Finding(says % values)


class Outcome:
    """A number made of everything that was noted, in its order."""

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
    """Takes an input apart; zeros follow its end."""

    def __init__(self, data):
        self._data = data
        self._at = 0

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
