# Pulses at a pin since the start, counted by interrupt: a rain gauge, an electricity meter. A sleeping sensor counts
# none.
#
# With `debounce_ms` a level counts once it has lasted that long: neither a contact that bounces, when it closes or when
# it opens, nor a disturbance makes a pulse. Each edge is noted, and the next one, or read(), tells whether the level
# after it has lasted. Only the interrupt writes what it shares with read(), and it allocates nothing.

from inflight.compat import const, passed, ticks_ms
from sensor_digital import debounce_of, pull_of
from sensors import NEEDED, SensorError, pin

FIELDS = {"pin": NEEDED, "pull": "", "edge": "falling", "unit": "count", "scale": 1, "debounce_ms": 5}
_MOST = const(0x3FFFFFFF)  # a larger number would need heap, which an interrupt cannot allocate


class Driver:
    def __init__(self, fields, name):
        from machine import Pin

        edge = fields["edge"]
        if edge not in ("falling", "rising"):
            raise SensorError('edge: write "falling" or "rising"')
        self._f = fields
        self._name = name
        self._n = 0
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

    def _count(self, _):
        self._n = self._n + 1 & _MOST

    def _edge(self, _):
        now = ticks_ms()
        if self._lasts(now):
            self._lasting = self._level
            if self._level == self._active:
                self._n = self._n + 1 & _MOST
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
        yield self._name, self._f["unit"], self._total() * self._f["scale"]
