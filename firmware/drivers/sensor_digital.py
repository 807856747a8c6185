# The level of a pin: true or false.

from errno import EIO

from inflight.compat import const, sleep_ms
from sensors import NEEDED, SensorError, pin

FIELDS = {"pin": NEEDED, "pull": "", "invert": False, "debounce_ms": 5}
_LONGEST_MS = const(1000)
_PATIENCE = const(10)  # how many times `debounce_ms` a level may take to settle


def pull_of(text):
    """Pin.PULL_UP for "up", Pin.PULL_DOWN for "down", None for "". Raises SensorError."""
    from machine import Pin

    if text not in ("", "up", "down"):
        raise SensorError('pull: write "up" or "down", or leave it out')
    return getattr(Pin, "PULL_" + text.upper()) if text else None


def debounce_of(ms):
    """That time in ms. Raises SensorError."""
    if not 0 <= ms <= _LONGEST_MS or ms != int(ms):
        raise SensorError("debounce_ms: write a whole number from 0 to %d" % _LONGEST_MS)
    return int(ms)


class Driver:
    def __init__(self, fields, name):
        from machine import Pin

        self._name = name
        self._debounce = debounce_of(fields["debounce_ms"])
        self._pin = pin(fields["pin"], Pin.IN, pull_of(fields["pull"]))
        self._invert = fields["invert"]

    def _level(self):
        # Once it has been the same for `debounce_ms`.
        level = self._pin.value()
        lasted = 0
        for _ in range(_PATIENCE * self._debounce):
            if lasted == self._debounce:
                break
            sleep_ms(1)
            before, level = level, self._pin.value()
            lasted = lasted + 1 if level == before else 0
        if lasted < self._debounce:
            raise OSError(EIO, "its level does not settle: check its wires, and its pull-up resistor")
        return level

    def read(self):
        yield self._name, None, (self._level() == 1) != self._invert
