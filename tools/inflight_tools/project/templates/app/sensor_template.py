# The driver "template": a voltage at an analogue pin, as a share of what was measured between two ends.
#
# Its entry of `sensors` in config.json: {"driver": "template", "pin": 26}, and `low` and `high` if they are others.

from sensors import NEEDED, measured, pin

FIELDS = {"pin": NEEDED, "low": 0, "high": 65535}


class Driver:
    READINGS = {"": (0, 1)}  # beyond: an error in the health message, not a reading

    def __init__(self, fields, name):
        from machine import ADC

        self._fields = fields
        self._name = name
        self._adc = ADC(pin(fields["pin"]))
        if hasattr(ADC, "ATTN_11DB"):
            self._adc.atten(ADC.ATTN_11DB)  # an ESP32: up to 3 V, not to 1 V

    def read(self):
        """Yields the share. Raises OSError where the wire is broken: then all bits are alike."""
        low, high = self._fields["low"], self._fields["high"]
        yield self._name, "/", (measured(self._adc.read_u16(), 16) - low) / (high - low)
