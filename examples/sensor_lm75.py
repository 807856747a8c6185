# A sensor driver of your own. This one reads an LM75 or LM75A thermometer on an I2C bus.
#
# The firmware imports the module sensor_<driver> when an entry of `sensors` in config.json names the driver:
#
#   {"driver": "lm75", "sda": 4, "scl": 5, "name": "cellar"}
#
# To make a driver of your own:
#   1. Copy this file to sensor_<driver>.py.
#   2. List the fields of its entry in FIELDS, each with its default. NEEDED has no default.
#   3. Open the hardware in Driver.__init__(). An exception appears in the health message under the sensor's name,
#      and the firmware makes the driver again at the next reading.
#   4. Yield (name, unit, value) in read(). Units: the SenML registry (RFC 8428).
#   5. If the hardware measures for a while, add start(): it begins to measure and returns how many ms that takes.
#      The firmware waits, then calls read().

from sensors import NEEDED, pin

FIELDS = {"sda": NEEDED, "scl": NEEDED, "address": 0x48}


class Driver:
    """fields: what FIELDS lists, from the entry. name: the entry's `name`, or the driver's."""

    def __init__(self, fields, name):
        from machine import I2C

        self._name = name
        self._address = fields["address"]
        self._bus = I2C(scl=pin(fields["scl"]), sda=pin(fields["sda"]))

    def read(self):
        """Yields the temperature in degrees Celsius. Raises OSError if the sensor does not answer."""
        high, low = self._bus.readfrom_mem(self._address, 0, 2)
        steps = (high << 8 | low) >> 5  # 11 bits, two's complement, in steps of 0.125 degrees
        if steps > 1023:
            steps -= 2048
        yield self._name, "Cel", steps / 8
