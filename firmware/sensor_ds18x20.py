# DS18B20 and its kin on a 1-Wire bus, with MicroPython's own driver: as many as there are, each under
# the sensor's name and its own serial number.

from binascii import hexlify
from errno import ENODEV

from inflight.compat import const
from sensors import NEEDED, pin

FIELDS = {"pin": NEEDED}
_CONVERSION_MS = const(750)
_POWER_ON = const(85)  # what a sensor tells that lost its power while it measured


class Driver:
    def __init__(self, fields, name):
        from ds18x20 import DS18X20
        from onewire import OneWire

        self._name = name
        self._bus = DS18X20(OneWire(pin(fields["pin"])))
        self._roms = []  # every one that was ever there: one that goes is missed

    def start(self):
        for rom in self._bus.scan():
            if rom not in self._roms:
                self._roms.append(rom)
        if not self._roms:
            raise OSError(ENODEV, "no sensor on the bus: look at the wires, and for a pull-up resistor")
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
                value = ValueError("85 degrees: it has not measured, look at its power")
            yield name, "Cel", value
