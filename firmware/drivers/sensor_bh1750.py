# ROHM BH1750 on I2C: illuminance, one measurement of high resolution at each start(); off in between.

from i2c import Chip
from inflight.compat import const
from sensors import NEEDED

FIELDS = {"sda": NEEDED, "scl": NEEDED, "address": 35}
_POWER_ON = b"\x01"
_MEASURE = b"\x20"
_MEASURE_MS = const(180)  # at most
_FULL = const(0xFFFF)


class Driver:
    def __init__(self, fields, name):
        self._name = name
        self._chip = Chip(fields, (35, 92))

    def start(self):
        self._chip.write(_POWER_ON)
        self._chip.write(_MEASURE)
        return _MEASURE_MS

    def read(self):
        high, low = self._chip.read(2)
        raw = high << 8 | low
        if raw == _FULL:
            raise ValueError("more than 54612 lx: shade it")
        yield self._name, "lx", raw / 1.2
