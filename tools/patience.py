"""A time-out that no busy machine runs into."""

import time


class Patience:
    """A wait for something that grows. It is over when that has not grown for `seconds`."""

    def __init__(self, seconds):
        self._seconds = seconds
        self._last, self._since = None, 0.0

    def over(self, progress):
        """`progress`: how much there is now."""
        if progress != self._last:
            self._last, self._since = progress, time.monotonic()
        return time.monotonic() - self._since > self._seconds
