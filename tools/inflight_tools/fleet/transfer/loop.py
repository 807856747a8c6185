"""Uploads or downloads landing files, again and again."""

import random
import re
import time

from inflight_tools.fleet.transfer.names import Blocked, collector, in_order

_BACKOFF_S = 1, 60  # shortest and longest
_REPORT_S = 10
_DURATION = re.compile(r"\d+ ms")  # differs from one attempt to the next


class Figures:
    """Counts since the start. waiting: {name: bytes} of files that were seen and not yet moved. moved_at: when one was,
    in s since 1970, 0 if never."""

    def __init__(self):
        self.files = self.bytes = self.errors = 0
        self.waiting = {}
        self.moved_at = 0.0

    def moved(self, size):
        self.files += 1
        self.bytes += size
        self.moved_at = time.time()


class Loop:
    """Moves the files of `side`, an Upload or a Download. say: a function that takes a text. tell: one that takes
    Figures: after each look that found files, and every ten seconds meanwhile."""

    def __init__(self, side, say, tell):
        self._side, self._say, self._tell = side, say, tell
        self.figures = Figures()
        self._told, self._next = 0, time.monotonic() + _REPORT_S
        self._error = None  # the text of the last one
        self._backoff = _BACKOFF_S[0]

    def once(self, stopping):
        """Moves the files that are present, until `stopping` is set. Raises Refused; OSError, Blocked: not all were
        moved."""
        try:
            self._pass(stopping)
        finally:
            self._tell(self.figures)

    def run(self, stopping, every_s):
        """Moves files every `every_s` seconds until `stopping` is set. Raises Refused. Other errors are said, and it
        tries again."""
        while not stopping.is_set():
            try:
                self._pass(stopping)
            except Blocked as e:  # the others were moved
                self._failed(e)
                self._rest(stopping, every_s)
            except OSError as e:
                self._failed(e)
                stopping.wait(self._backoff * random.uniform(0.5, 1))
                self._backoff = min(2 * self._backoff, _BACKOFF_S[1])
            else:
                if self._error:
                    self._say("it works again")
                self._error = None
                self._rest(stopping, every_s)
        self._report(at_once=True)

    def _rest(self, stopping, every_s):
        self._backoff = _BACKOFF_S[0]
        self._report(at_once=True)
        stopping.wait(every_s)

    def _failed(self, error):
        self.figures.errors += 1
        text = str(error).partition("\n")[0][:500] or type(error).__name__
        what = _DURATION.sub("", text)
        if what != self._error:
            self._say(f"{text}; retrying")
        self._error = what

    def _pass(self, stopping):
        """A blocked file holds up the later files of its collector, and no others."""
        waiting = self.figures.waiting = in_order(self._side.names)
        blocked = {}
        for name in list(waiting):
            if stopping.is_set():
                return
            if (writer := collector(name)) in blocked:
                continue
            try:
                size = self._side.move(name)
            except Blocked as e:
                blocked[writer] = e
                continue
            del waiting[name]
            if size is not None:
                self.figures.moved(size)
            self._report()
        if blocked:
            raise next(iter(blocked.values()))

    def _report(self, at_once=False):
        if self.figures.files > self._told and (at_once or time.monotonic() >= self._next):
            self._told, self._next = self.figures.files, time.monotonic() + _REPORT_S
            self._tell(self.figures)
