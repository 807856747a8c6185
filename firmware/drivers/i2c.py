# A chip on an I2C bus, for drivers of sensors.

from errno import EIO, ENODEV

from sensors import SensorError, pin


class Chip:
    """The chip at one of `addresses` (a sequence, the usual one first) on the bus at the pins sda and scl. fields: the
    driver's, of which `address` chooses. Raises SensorError."""

    def __init__(self, fields, addresses):
        from machine import SoftI2C

        at = fields.get("address", addresses[0])
        self._known = ", ".join(map(str, addresses))
        if at not in addresses:
            raise SensorError("address: use one of " + self._known)
        self.address = int(at)
        self._bus = SoftI2C(sda=pin(fields["sda"]), scl=pin(fields["scl"]))

    def _call(self, method, *args):
        try:
            return method(self.address, *args)
        except OSError:
            text = "no answer at address %d: check the wires, and the address (%s)" % (self.address, self._known)
            raise OSError(ENODEV, text)

    def write(self, data):
        """Sends bytes. Raises OSError if the chip does not acknowledge all of them."""
        if self._call(self._bus.writeto, data) != len(data):
            raise OSError(EIO, "it refuses a command: check whether it is that chip")

    def read(self, n):
        """Returns n bytes. Raises OSError if the chip does not answer: many do not while they measure."""
        return self._call(self._bus.readfrom, n)

    def write_register(self, register, data):
        """Writes bytes to the registers from `register` on. Raises OSError."""
        self._call(self._bus.writeto_mem, register, data)

    def read_register(self, register, n):
        """Returns n bytes of the registers from `register` on. Raises OSError."""
        return self._call(self._bus.readfrom_mem, register, n)
