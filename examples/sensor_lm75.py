# A sensor driver of your own. This one reads an LM75 or LM75A thermometer on an I2C bus.
#
# The firmware imports the module sensor_<driver> when an entry of `sensors` in config.json names the driver:
#
#   {"driver": "lm75", "sda": 4, "scl": 5, "name": "cellar"}
#
# docs/drivers.md tells how to make one.

from sensors import NEEDED, pin

FIELDS = {"sda": NEEDED, "scl": NEEDED, "address": 0x48}


class Driver:
    """fields: what FIELDS lists, from the entry. name: the entry's `name`, or the driver's."""

    READINGS = {"": (-55, 125)}  # beyond: an error in the health message, not a reading

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
