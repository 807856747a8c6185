# The level of a pin: true or false.

from sensors import NEEDED, SensorError, pin

FIELDS = {"pin": NEEDED, "pull": "", "invert": False}


def pull_of(text):
    """Pin.PULL_UP for "up", Pin.PULL_DOWN for "down", None for "". Raises SensorError."""
    from machine import Pin

    if text not in ("", "up", "down"):
        raise SensorError('pull: write "up" or "down", or leave it out')
    return getattr(Pin, "PULL_" + text.upper()) if text else None


class Driver:
    def __init__(self, fields, name):
        from machine import Pin

        self._name = name
        self._pin = pin(fields["pin"], Pin.IN, pull_of(fields["pull"]))
        self._invert = fields["invert"]

    def read(self):
        yield self._name, None, (self._pin.value() == 1) != self._invert
