# Pulses at a pin, counted by interrupt: a rain gauge, an electricity meter. A sleeping sensor counts none.
#
# The total is in a file before it is published, so no reading is lower than one before it; a restart loses the pulses
# since the last reading. A file wears the flash: it is written each _KEEP_MS at most, and readings between two writes
# repeat the total.
#
# With `debounce_ms` a level counts once it has lasted that long: neither a contact that bounces, when it closes or when
# it opens, nor a disturbance makes a pulse. Each edge is noted, and the next one, or read(), tells whether the level
# after it has lasted. Only the interrupt writes what it shares with read(), and it allocates nothing.

import json

from files import beside, kept, write
from inflight.compat import const, passed, ticks_ms
from sensor_digital import debounce_of, pull_of
from sensors import NEEDED, SensorError, pin

FIELDS = {
    "pin": NEEDED,
    "pull": "",
    "edge": "falling",
    "unit": "count",
    "scale": 1,
    "debounce_ms": 5,
    "first": 0,
    "measures": "",  # for Home Assistant
}
_MOST = const(0x3FFFFFFF)  # a larger number would need heap, which an interrupt cannot allocate
_KEEP_MS = const(10_000)
_SHORT = const(200)  # levels that did not last, between two readings: more are neither disturbances
_BOUNCES = const(20)  # nor, for each pulse, a contact that bounces


class Driver:
    def __init__(self, fields, name):
        from machine import Pin

        edge = fields["edge"]
        if edge not in ("falling", "rising"):
            raise SensorError('edge: write "falling" or "rising"')
        if fields["measures"] not in ("", "energy", "gas", "rain", "water"):
            raise SensorError('measures: write "energy", "gas", "rain" or "water"')
        self._f = fields
        self._name = name
        if fields["scale"] <= 0:
            raise SensorError("scale: write a number above 0")
        self._n = self._read = self._short = 0
        self._path = beside(__import__("board"), "counters.json")  # {name and `first`: pulses}
        self._key = "%s %s" % (name, fields["first"])  # another `first` begins anew
        self._wrong = None
        try:
            pulses = self._totals().get(self._key)
        except (TypeError, ValueError):
            self._wrong = SensorError("counters.json was damaged: all counters begin anew")
            write(self._path, "{}")
            pulses = 0
        self._pulses = self._kept = pulses if type(pulses) is int and pulses > 0 else 0
        self._kept_at = None  # ticks, until it may be written again
        self._debounce = debounce_of(fields["debounce_ms"])
        self._pin = pin(fields["pin"], Pin.IN, pull_of(fields["pull"]))
        self._active = 1 if edge == "rising" else 0  # the level of a pulse
        self._level = self._lasting = self._pin.value()  # after the last edge; the last one that has lasted
        self._at = ticks_ms()  # of the last edge
        handler = self._edge
        trigger = Pin.IRQ_FALLING | Pin.IRQ_RISING
        if not self._debounce:
            handler = self._count
            trigger = Pin.IRQ_RISING if self._active else Pin.IRQ_FALLING
        try:
            self._pin.irq(handler, trigger, hard=True)
        except TypeError:
            self._pin.irq(handler, trigger)  # ports whose interrupts are all soft

    def _totals(self):
        return dict(json.loads(kept(self._path, "{}")))

    def _keep(self):
        if self._kept_at is not None and passed(ticks_ms(), self._kept_at, _KEEP_MS):
            self._kept_at = None
        if self._pulses != self._kept and self._kept_at is None:
            totals = self._totals()
            totals[self._key] = self._pulses
            write(self._path, json.dumps(totals))
            self._kept = self._pulses
            self._kept_at = ticks_ms()

    def _count(self, _):
        self._n = self._n + 1 & _MOST

    def _edge(self, _):
        now = ticks_ms()
        if self._lasts(now):
            self._lasting = self._level
            if self._level == self._active:
                self._n = self._n + 1 & _MOST
        elif self._level != self._lasting:
            self._short = self._short + 1 & _MOST
        self._level = self._pin.value()
        self._at = now

    def _lasts(self, now):
        # True if the level after the last edge has lasted, and is another one.
        return self._level != self._lasting and passed(now, self._at, self._debounce)

    def _total(self):
        while True:
            n, at = self._n, self._at
            pulse = self._level == self._active and self._lasts(ticks_ms())
            if n == self._n and at == self._at:  # no interrupt came between
                return n + pulse

    def read(self):
        f = self._f
        short, self._short = self._short, 0
        n = self._total()
        wrong = self._wrong
        new = (n - self._read) & _MOST
        if short > max(_SHORT, _BOUNCES * new):
            wrong = SensorError("pulses shorter than debounce_ms are not counted: write a lower one")
        self._read = n
        self._pulses += new
        try:
            self._keep()
        except Exception as e:
            wrong = e
        yield self._name, f["unit"], f["first"] + self._kept * f["scale"]
        if wrong:
            yield self._name, None, wrong
