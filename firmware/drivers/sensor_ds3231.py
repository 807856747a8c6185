# Maxim DS3231 on I2C, a clock: its temperature.

from errno import EIO, ENODEV

from i2c import Chip
from inflight.compat import const
from sensors import NEEDED

FIELDS = {"sda": NEEDED, "scl": NEEDED}
_ADDRESS = const(104)
_CONTROL = const(0x0E)
_CONVERT = const(32)
_STATUS = const(0x0F)
_BUSY = const(4)
_TEMPERATURE = const(0x11)
_CONVERSION_MS = const(200)  # at most
_OTHER = "the chip at address 104 is not a DS3231"


class Driver:
    READINGS = {"-temperature": (-45, 90)}

    def __init__(self, fields, name):
        self._name = name
        self._chip = Chip(fields, (_ADDRESS,))

    def _is_measuring(self):
        control, status = self._chip.read_register(_CONTROL, 2)
        return control & _CONVERT or status & _BUSY

    def start(self):
        if not self._is_measuring():  # it does so by itself, too
            control = self._chip.read_register(_CONTROL, 1)[0]
            self._chip.write_register(_CONTROL, bytes([control | _CONVERT]))
            if not self._is_measuring():
                raise OSError(ENODEV, _OTHER)
        return _CONVERSION_MS

    def read(self):
        if self._is_measuring():
            raise OSError(EIO, "still measuring")
        high, low = self._chip.read_register(_TEMPERATURE, 2)
        if low & 63:  # always 0
            raise OSError(ENODEV, _OTHER)
        yield self._name + "-temperature", "Cel", (high - 256 if high > 127 else high) + low / 256
