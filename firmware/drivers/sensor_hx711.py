# HX711 with a load cell, on two pins: (value - offset) * scale of channel A with gain 128. Off between measurements.

from errno import EIO, ENODEV

from inflight.compat import const, sleep_ms
from sensors import NEEDED, pin

FIELDS = {"data": NEEDED, "clock": NEEDED, "offset": 0, "scale": 1.0, "unit": "count"}
_SETTLE_MS = const(500)  # 400 at 10 measurements/s, and one measurement
_BITS = const(24)
_PULSE_US = const(50)  # after 60 it switches itself off
_MOST = const(0x7FFFFF)


class Driver:
    def __init__(self, fields, name):
        from machine import Pin

        self._f = fields
        self._name = name
        self._data = pin(fields["data"], Pin.IN, Pin.PULL_UP)  # without a chip it is never low
        self._clock = pin(fields["clock"], Pin.OUT, value=1)

    def start(self):
        sleep_ms(1)  # surely off: a shorter pulse would take a bit away
        self._clock.value(0)  # on: it begins anew
        return _SETTLE_MS

    def _pulse(self):
        # One pulse, and the level of the data then. An interrupt would prolong the pulse.
        from time import ticks_diff, ticks_us

        from machine import disable_irq, enable_irq

        clock = self._clock
        state = disable_irq()
        began = ticks_us()
        clock.value(1)
        clock.value(0)
        us = ticks_diff(ticks_us(), began)
        enable_irq(state)
        if us > _PULSE_US:
            raise OSError(EIO, "a pulse took %d us: this board is too slow for it now" % us)
        return self._data.value()

    def read(self):
        f = self._f
        try:
            if self._data.value():
                raise OSError(ENODEV, "no answer: check the wires, and its power")
            raw = 0
            for _ in range(_BITS):
                raw = raw << 1 | self._pulse()
            if not self._pulse():  # the 25th: gain 128 next time, and high until the next measurement is complete
                raise OSError(ENODEV, "data is always low: check the wires")
        finally:
            self._clock.value(1)  # off
        if raw > _MOST:
            raw -= 1 << _BITS
        if raw in (_MOST, ~_MOST):
            raise ValueError("beyond the range of the load cell: check its wires, and its load")
        yield self._name, f["unit"], (raw - f["offset"]) * f["scale"]
