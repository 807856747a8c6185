# Texas Instruments INA219 on I2C: voltage of a load, current through a shunt, and power; each the mean of 16
# measurements at each start(), off in between.

import struct
from errno import EIO, ENODEV

from i2c import Chip
from inflight.compat import const
from sensors import NEEDED, SensorError, measured

FIELDS = {"sda": NEEDED, "scl": NEEDED, "address": 64, "shunt": 0.1}
_CONFIGURATION = const(0)
_SHUNT = const(1)
_BUS = const(2)
_RESET = b"\x80\x00"
_AFTER_RESET = b"\x39\x9f"
_MEASURE = b"\x3e\x63"  # range 32 V and 320 mV, 16 samples of both, once
_MEASURE_MS = const(19)  # twice 9.36 at most
_READY = const(2)
_FULL_SHUNT = const(32_000)  # 10 uV
_FULL_BUS = const(8000)  # 4 mV


class Driver:
    READINGS = {"-voltage": None, "-current": None, "-power": None}

    def __init__(self, fields, name):
        self._name = name
        self._ohms = fields["shunt"]
        if self._ohms <= 0:
            raise SensorError("shunt: write its resistance in ohms, as printed on it: R100 is 0.1")
        self._chip = chip = Chip(fields, range(64, 80))
        chip.write_register(_CONFIGURATION, _RESET)
        if chip.read_register(_CONFIGURATION, 2) != _AFTER_RESET:
            raise OSError(ENODEV, "the chip at address %d is not an INA219" % chip.address)

    def start(self):
        self._chip.write_register(_CONFIGURATION, _MEASURE)
        return _MEASURE_MS

    def _read(self, register, form):
        return struct.unpack(form, self._chip.read_register(register, 2))[0]

    def read(self):
        bus = self._read(_BUS, ">H")
        if not bus & _READY:
            raise OSError(EIO, "still measuring")
        bus = measured(bus, 16) >> 3
        shunt = self._read(_SHUNT, ">h")
        volts = bus / 250
        amperes = shunt / 100_000 / self._ohms
        if bus >= _FULL_BUS:
            volts = ValueError("32 V or more: it may be destroyed")
        if abs(shunt) >= _FULL_SHUNT:
            amperes = ValueError("320 mV or more at the shunt: use one with less resistance")
        yield self._name + "-voltage", "V", volts
        yield self._name + "-current", "A", amperes
        if not isinstance(volts, ValueError) and not isinstance(amperes, ValueError):
            yield self._name + "-power", "W", volts * amperes
