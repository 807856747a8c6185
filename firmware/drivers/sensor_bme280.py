# Bosch BME280, and BMP280 without humidity, on I2C: one measurement at each start(), sleeping
# in between. Registers and formulas are those of the data sheet (BST-BME280-DS002).

import struct
from errno import EIO, ENODEV

from i2c import Chip
from inflight.compat import const
from sensors import NEEDED, measured

FIELDS = {"sda": NEEDED, "scl": NEEDED, "address": 118}
_ID = const(0xD0)
_BME280 = const(0x60)
_BMP280 = const(0x58)
_CTRL_HUM = const(0xF2)
_STATUS = const(0xF3)
_CTRL_MEAS = const(0xF4)
_DATA = const(0xF7)
_FORCED = const(0x25)  # each quantity once, then sleep
_MEASURE_MS = const(10)  # 9.3 at most
_SKIPPED = const(0x80000)  # temperature or pressure that was not measured,
_SKIPPED_HUMIDITY = const(0x8000)


def temperature(t, raw):
    """t_fine of the data sheet, which is degrees Celsius * 5120; t: its dig_T1 to dig_T3."""
    x = raw / 16384 - t[0] / 1024
    y = raw / 131072 - t[0] / 8192
    return x * t[1] + y * y * t[2]


def pressure(p, raw, fine):
    """Pa; p: dig_P1 to dig_P9. OSError if the calibration makes no sense."""
    x = fine / 2 - 64000
    y = x * x * p[5] / 32768 + x * p[4] * 2
    y = y / 4 + p[3] * 65536
    scale = (1 + (p[2] * x * x / 524288 + p[1] * x) / 524288 / 32768) * p[0]
    if not scale:
        raise OSError(EIO, "no calibration")
    value = (1048576 - raw - y / 4096) * 6250 / scale
    return value + (p[8] * value * value / 2147483648 + value * p[7] / 32768 + p[6]) / 16


def humidity(h, raw, fine):
    """% relative; h: dig_H1 to dig_H6."""
    x = fine - 76800
    value = raw - (h[3] * 64 + h[4] / 16384 * x)
    value *= h[1] / 65536 * (1 + h[5] / 67108864 * x * (1 + h[2] / 67108864 * x))
    value *= 1 - h[0] * value / 524288
    return min(max(value, 0), 100)


def _or_error(formula, calibration, fine, *raw):
    # What the formula says of `raw`, the arguments of measured(); an error of this quantity alone.
    try:
        return formula(calibration, measured(*raw), fine)
    except OSError as e:
        return e


class Driver:
    READINGS = {"-temperature": (-40, 85), "-pressure": (30_000, 110_000), "-humidity": None}

    def __init__(self, fields, name):
        self._name = name
        self._chip = chip = Chip(fields, (118, 119))
        kind = chip.read_register(_ID, 1)[0]
        if kind not in (_BME280, _BMP280):
            raise OSError(ENODEV, "chip %d at address %d is not a BME280 or BMP280" % (kind, chip.address))
        numbers = struct.unpack("<HhhHhhhhhhhh", self._calibration(0x88, 24))
        self._t = numbers[:3]
        self._p = numbers[3:]
        self._h = self._read_humidity() if kind == _BME280 else None

    def _calibration(self, register, n):
        # A wrong bit would make every value wrong, and there is no checksum.
        data = self._chip.read_register(register, n)
        measured(int.from_bytes(data, "big"), 8 * n)
        if data != self._chip.read_register(register, n):
            raise OSError(EIO, "its calibration changes: check the wires, shorter ones disturb less")
        return data

    def _read_humidity(self):
        h1 = self._calibration(0xA1, 1)[0]
        # Two numbers of 12 bits share the middle byte.
        h2, h3, h4, low, h5, h6 = struct.unpack("<hBbBbb", self._calibration(0xE1, 7))
        return h1, h2, h3, h4 * 16 | low & 15, h5 * 16 | low >> 4, h6

    def start(self):
        if self._h:
            self._chip.write_register(_CTRL_HUM, b"\x01")
        self._chip.write_register(_CTRL_MEAS, bytes([_FORCED]))
        return _MEASURE_MS

    def read(self):
        if self._chip.read_register(_STATUS, 1)[0] & 8:
            raise OSError(EIO, "still measuring")
        d = self._chip.read_register(_DATA, 8 if self._h else 6)
        fine = temperature(self._t, measured(d[3] << 12 | d[4] << 4 | d[5] >> 4, 20, _SKIPPED))
        yield self._name + "-temperature", "Cel", fine / 5120
        raw = d[0] << 12 | d[1] << 4 | d[2] >> 4
        yield self._name + "-pressure", "Pa", _or_error(pressure, self._p, fine, raw, 20, _SKIPPED)
        if self._h:
            raw = d[6] << 8 | d[7]
            yield self._name + "-humidity", "%RH", _or_error(humidity, self._h, fine, raw, 16, _SKIPPED_HUMIDITY)
