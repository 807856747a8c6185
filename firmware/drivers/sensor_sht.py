# Sensirion SHT30, SHT31, SHT35 (driver sht3x), SHT40, SHT41, SHT45 (driver sht4x) on I2C: one measurement of high
# repeatability at each start().

from i2c import Chip
from sensirion import temperature, words
from sensors import NEEDED

FIELDS = {"sda": NEEDED, "scl": NEEDED, "address": 68}
# Driver: addresses, command, ms that it takes at most, % humidity of the words 0 and 65535.
_KINDS = {"sht3x": ((68, 69), b"\x24\x00", 16, 0, 100), "sht4x": ((68, 69, 70), b"\xfd", 10, -6, 119)}


class Driver:
    READINGS = {"-temperature": (-40, 125), "-humidity": None}

    def __init__(self, fields, name):
        addresses, self._command, self._ms, self._least, self._most = _KINDS[fields["driver"]]
        self._name = name
        self._chip = Chip(fields, addresses)

    def start(self):
        self._chip.write(self._command)
        return self._ms

    def read(self):
        degrees, humidity = words(self._chip.read(6))
        yield self._name + "-temperature", "Cel", temperature(degrees)
        humidity = self._least + humidity * (self._most - self._least) / 65535
        yield self._name + "-humidity", "%RH", min(max(humidity, 0), 100)  # beyond: rounding near the ends
