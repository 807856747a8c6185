# ST VL53L0X on I2C: a distance by time of flight, one measurement at each start(). With the chip's own settings, and
# without the calibration for a cover glass: enough for a level or a door.

from errno import EIO, ENODEV

from i2c import Chip
from inflight.compat import const
from sensors import NEEDED

FIELDS = {"sda": NEEDED, "scl": NEEDED}
_ADDRESS = const(41)
_START = const(0x00)
_INTERRUPT = const(0x0A)
_CLEAR = const(0x0B)
_INTERRUPTS = const(0x13)
_RESULT = const(0x14)
_SUPPLY = const(0x89)
_ID = const(0xC0)
_VL53L0X = b"\xee\xaa"
_NEW_SAMPLE = b"\x04"
_MEASURE_MS = const(60)  # 33 usually
_VALID = const(11)
_LASER = (1, 2, 3)  # the states that mean a fault of the laser or its supply
_MOST = const(8190)  # mm: there is nothing


class Driver:
    def __init__(self, fields, name):
        self._name = name
        self._chip = chip = Chip(fields, (_ADDRESS,))
        if chip.read_register(_ID, 2) != _VL53L0X:
            raise OSError(ENODEV, "the chip at address 41 is not a VL53L0X")
        chip.write_register(_SUPPLY, bytes([chip.read_register(_SUPPLY, 1)[0] | 1]))  # the bus has 2.8 V, not 1.8
        chip.write_register(_INTERRUPT, _NEW_SAMPLE)

    def start(self):
        self._chip.write_register(_CLEAR, b"\x01")
        self._chip.write_register(_START, b"\x01")
        return _MEASURE_MS

    def read(self):
        if not self._chip.read_register(_INTERRUPTS, 1)[0] & 7:
            raise OSError(EIO, "still measuring")
        d = self._chip.read_register(_RESULT, 12)
        state = d[0] >> 3 & 15
        mm = d[10] << 8 | d[11]
        if state in _LASER:
            raise OSError(EIO, "its laser failed, state %d: check its power" % state)
        if state != _VALID or mm >= _MOST:
            raise ValueError("it sees nothing, state %d: too far, too dark or too bright" % state)
        yield self._name, "m", mm / 1000
