"""A time-out that no busy machine runs into."""

import time


class Patience:
    """Over when progress(), a number that grows, has not changed for `seconds`."""

    def __init__(self, seconds, progress):
        self.seconds, self._progress = seconds, progress
        self._last, self._since = None, 0

    @property
    def over(self):
        now = self._progress()
        if now != self._last:
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since > self.seconds
