"""The facts of a fleet as the tables have them now: computed again when a batch has changed them."""

import threading
import time

from inflight_tools.fleet.collect.counters import load
from inflight_tools.fleet.delta import last_batch, opened
from inflight_tools.fleet.query.facts import gather, of_device
from inflight_tools.fleet.spark.landing import LandingFiles
from inflight_tools.fleet.spark.storage import files_in

_LOOK_S = 1  # between looks at the tables, whoever asks
_OLD_S = 60  # then the facts are computed again without a batch: who is silent depends on the time


class Live:
    """landing, of: folders or URIs of landing files and tables. topics: root of the devices' topics. how: `grace_s` and
    `retired`, as facts.gather() has them. clock: a function that returns s since 1970. Its methods may be called by
    several threads."""

    def __init__(self, landing, of, topics, clock=time.time, **how):
        self._landing, self._of, self._topics, self._clock, self._how = landing, of, topics, clock, how
        self._lock = threading.Lock()  # one query at a time: each takes a quarter of the memory
        self._looking = threading.Lock()
        self._looked, self._fresh = -_LOOK_S, ""
        self._of_facts, self._facts = None, None

    def fresh(self):
        """A text that differs when the facts do."""
        with self._looking:
            now = self._clock()
            if not 0 <= now - self._looked < _LOOK_S:
                batch = last_batch(opened(files_in(self._of), "ledger"))
                self._looked, self._fresh = now, f"{batch}-{int(now // _OLD_S)}"
            return self._fresh

    def _judging(self):
        unread = LandingFiles(self._landing, self._of).unread()  # before the tables
        return {"now": self._clock(), "unread": unread, **self._how}

    def fleet(self):
        """(what fresh() returned before, the facts of the fleet). Raises as gather() does."""
        with self._lock:
            fresh = self.fresh()
            if self._of_facts != fresh:
                self._facts = gather(self._of, self._topics, counters=load(self._landing), **self._judging())
                self._of_facts = fresh
            return fresh, self._facts

    def device(self, name, number=None, epoch=None):
        """(what fresh() returned before, the facts of one device or None). Raises as of_device() does."""
        with self._lock:
            fresh = self.fresh()
            how = {"number": number, "epoch": epoch, "landing": self._landing, **self._judging()}
            return fresh, of_device(self._of, self._topics, name, **how)
