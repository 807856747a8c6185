"""The facts of a fleet, computed in the background when a batch has changed them, and kept for whoever asks."""

import os
import threading
import time
import zlib
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest

from inflight_tools.fleet import device, registry
from inflight_tools.fleet.collect.counters import load
from inflight_tools.fleet.console.listing import Listing
from inflight_tools.fleet.delta import last_batch, opened
from inflight_tools.fleet.monitoring.metrics import FleetMetrics
from inflight_tools.fleet.query.facts import gathered, judged, last_readings, listed, of_device
from inflight_tools.fleet.report.collectors import behind
from inflight_tools.fleet.spark.landing import LandingFiles
from inflight_tools.fleet.spark.storage import files_in
from inflight_tools.output import first_line, log
from inflight_tools.visible import visible

_LOOK_S = 1  # between looks at the tables
_OLD_S = 60  # then the facts are computed again without a batch: who is silent depends on the time
_REST = 9  # times as long as facts took it waits for the next ones: a large fleet takes a tenth of a core
_END_S = 3  # that a query may take when the program ends
_MOST = 64  # questions about devices that wait, and answers that are kept
_MOST_ANSWERED = 4096  # answers of which it is known for which facts they were


class Fleet(NamedTuple):
    """The facts of gather(), all devices, and the text of the metrics. fresh: a text that differs when they do."""

    fresh: str
    facts: dict[str, Any]
    devices: Listing
    metrics: str


def _metrics(facts, readings):
    metrics = CollectorRegistry()
    metrics.register(FleetMetrics(facts, len(behind(facts)), readings))
    return generate_latest(metrics).decode()


def _keep(kept, most, key, value):
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


class Live:
    """landing, of: folders or URIs of landing files and tables. topics: root of the devices' topics. clock: a function
    that returns s since 1970. readings: names of those that metrics have. how: `grace_s` and `retired`, as
    facts.gather() has them. In its context a thread calls look() and answer(), which query the tables; the other
    methods and attributes tell any thread what these found. A query that outlasts the context ends the process."""

    def __init__(self, landing, of, topics, clock=time.time, readings=(), **how):
        self._landing, self._of, self._topics, self._clock, self._how = landing, of, topics, clock, how
        self._readings = readings
        self._changed = threading.Condition()
        self._questions, self._answers = {}, {}  # {(name, number, epoch): None}; {that: facts, or None: it failed}
        self._answered = {}  # {that: Fleet.fresh}, also without the answer: a page need not ask again
        self._hurried = self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.fleet = None  # a Fleet
        self.trouble = None  # why the tables cannot be read now, a text

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(_END_S)
        if self._thread.is_alive():
            os._exit(kind is not None)  # an interpreter that ends below a query aborts, or waits for ever

    def _run(self):
        due = time.monotonic()
        while not self._ended:
            if (now := time.monotonic()) >= due or self._hurried:
                self._hurried = False
                self.look()
                due = time.monotonic() + max(_LOOK_S, _REST * (time.monotonic() - now))
            self.answer(due - time.monotonic())

    def look(self):
        """Computes the facts of the fleet, if something has changed."""
        try:
            files, now = files_in(self._of), self._clock()
            said = zlib.crc32(repr(registry.load(files)).encode())
            fresh = f"{last_batch(opened(files, 'ledger'))}-{said:x}-{int(now // _OLD_S)}"
            if not self.fleet or self.fleet.fresh != fresh:
                with judged(self._of, self._topics, **self._judging()) as (database, facts):
                    found = gathered(database, facts, counters=load(self._landing))
                    devices = Listing(listed(database), database.known_names)
                    readings = last_readings(database, self._readings, now) if self._readings else []
                    self.fleet = Fleet(fresh, found, devices, _metrics(found, readings))
            self.trouble = None
        except BaseException as e:  # of DuckDB, delta-rs (a panic) or Python: the next look may find no trouble
            self.trouble = first_line(e)

    def answer(self, timeout_s=0.0):
        """Answers a question about a device, if one comes in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._questions or self._hurried or self._ended, timeout_s)
            if not self._questions:
                return
            asked = next(iter(self._questions))
            del self._questions[asked]
        (name, number, epoch), fresh, found = asked, self.fleet.fresh, None
        try:
            how = {"number": number, "epoch": epoch, "landing": self._landing}
            found = of_device(self._of, self._topics, name, **how, **self._judging())
        except BaseException as e:  # look() tells whether it is more than this device's trouble
            log(visible(f"{name}: {first_line(e)}"))
        with self._changed:
            _keep(self._answers, _MOST, asked, found)
            _keep(self._answered, _MOST_ANSWERED, asked, fresh)

    def ask(self, *asked):
        """What of_device() told of a name, number and epoch; None: not yet. It will be answered for the present
        Fleet."""
        with self._changed:
            if asked not in self._answers or self._answered.get(asked) != self.fleet.fresh:
                self._wonder(asked)
            return self._answers.get(asked)

    def answered(self, *asked):
        """`fresh` of the Fleet of the last answer, "": there was none."""
        with self._changed:
            fresh = self._answered.get(asked, "")
            if fresh != self.fleet.fresh:
                self._wonder(asked)
            return fresh

    def _wonder(self, asked):
        if len(self._questions) < _MOST:  # else it has to come again: those before it are answered first
            self._questions.setdefault(asked)
            self._changed.notify()

    def say(self, name, command, text, undo):
        """As device.say(), of these tables. The facts do not wait for their time."""
        device.say(self._of, command, name, text, undo)
        with self._changed:
            self._hurried = True
            self._changed.notify()

    def age(self, facts):
        """How old the facts are, in s."""
        return max(0, round(self._clock() - facts["made"]))

    def _judging(self):
        unread = LandingFiles(self._landing, self._of).unread()  # before the tables
        return {"now": self._clock(), "unread": unread, **self._how}
