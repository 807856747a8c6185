# DS18B20 and related sensors on a 1-Wire bus, with MicroPython's own driver, which checks the CRC of what a sensor
# measured: all sensors on the bus, each under the entry's name and its serial number.

from binascii import hexlify
from errno import EIO, ENODEV

from inflight.compat import const
from sensors import NEEDED, measured, pin, within

FIELDS = {"pin": NEEDED}
_DS18S20 = const(0x10)  # the family that counts in half degrees
_CONVERSION_MS = const(750)
_POWER_ON = const(85)  # the value of a sensor that lost its power during the measurement,
_MEASURED = const(16)  # and what its byte 6 is if it did measure that
_RANGE = (-55, 125)  # each for itself: others on the bus may be right


class Driver:
    def __init__(self, fields, name):
        from ds18x20 import DS18X20
        from onewire import OneWire

        self._name = name
        self._wire = OneWire(pin(fields["pin"]))
        self._bus = DS18X20(self._wire)
        self._roms = []  # every sensor ever found, so that a vanished one is an error

    def start(self):
        for rom in self._bus.scan():
            if self._wire.crc8(rom) == 0 and rom not in self._roms:  # a search does not check what it found
                self._roms.append(rom)
        if not self._roms:
            raise OSError(ENODEV, "no sensor on the bus: check the wires and the pull-up resistor")
        self._bus.convert_temp()
        return _CONVERSION_MS

    def read(self):
        for rom in self._roms:
            name = "%s-%s" % (self._name, str(hexlify(rom[1:7]), "ascii"))
            try:
                value = self._read(rom, name)
            except Exception as e:
                value = e
            yield name, "Cel", value

    def _read(self, rom, name):
        d = self._bus.read_scratch(rom)
        measured(int.from_bytes(d, "big"), 72)  # the CRC of zeros is right
        raw = d[1] << 8 | d[0]
        if raw > 0x7FFF:
            raw -= 0x10000
        value = (raw >> 1) + 0.75 - d[6] / 16 if rom[0] == _DS18S20 else raw / 16
        if value == _POWER_ON and d[6] != _MEASURED:
            raise OSError(EIO, "85 degrees: it has not measured, check its power")
        return within(_RANGE, name, value)
