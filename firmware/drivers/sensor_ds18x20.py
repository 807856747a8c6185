# DS18B20 and related sensors on a 1-Wire bus, with MicroPython's own driver: all sensors on the bus, each under
# the entry's name and its serial number.

from binascii import hexlify
from errno import ENODEV

from inflight.compat import const
from sensors import NEEDED, pin

FIELDS = {"pin": NEEDED}
_CONVERSION_MS = const(750)
_POWER_ON = const(85)  # the value of a sensor that lost its power during the measurement


class Driver:
    def __init__(self, fields, name):
        from ds18x20 import DS18X20
        from onewire import OneWire

        self._name = name
        self._bus = DS18X20(OneWire(pin(fields["pin"])))
        self._roms = []  # every sensor ever found, so that a vanished one is an error

    def start(self):
        for rom in self._bus.scan():
            if rom not in self._roms:
                self._roms.append(rom)
        if not self._roms:
            raise OSError(ENODEV, "no sensor on the bus: check the wires and the pull-up resistor")
        self._bus.convert_temp()
        return _CONVERSION_MS

    def read(self):
        for rom in self._roms:
            name = "%s-%s" % (self._name, str(hexlify(rom[1:7]), "ascii"))
            try:
                value = self._bus.read_temp(rom)
            except Exception as e:
                value = e
            if value == _POWER_ON:
                value = ValueError("85 degrees: it has not measured, check its power")
            yield name, "Cel", value
