# Pulses at a pin since the start, counted by interrupt: a rain gauge, an electricity meter. A sleeping sensor counts
# none.

from inflight.compat import const
from sensor_digital import pull_of
from sensors import NEEDED, SensorError, pin

FIELDS = {"pin": NEEDED, "pull": "", "edge": "falling", "unit": "count", "scale": 1}
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
        self._pin = pin(fields["pin"], Pin.IN, pull_of(fields["pull"]))
        trigger = Pin.IRQ_FALLING if edge == "falling" else Pin.IRQ_RISING
        try:
            self._pin.irq(self._count, trigger, hard=True)
        except TypeError:
            self._pin.irq(self._count, trigger)  # ports whose interrupts are all soft

    def _count(self, _):
        self._n = self._n + 1 & _MOST

    def read(self):
        yield self._name, self._f["unit"], self._n * self._f["scale"]
