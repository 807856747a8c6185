# A voltage at an analogue pin, as volts * scale + offset.

from sensors import NEEDED, SensorError, pin

FIELDS = {"pin": NEEDED, "unit": "V", "scale": 1.0, "offset": 0.0, "reference": 3.3}


class Driver:
    def __init__(self, fields, name):
        from machine import ADC

        self._f = fields
        self._name = name
        try:
            self._adc = ADC(pin(fields["pin"]))
        except ValueError as e:
            raise SensorError("pin %s: not analogue (%s)" % (fields["pin"], e))
        if hasattr(ADC, "ATTN_11DB"):
            self._adc.atten(ADC.ATTN_11DB)  # the whole range of an ESP32; its default ends at 1 V

    def read(self):
        f = self._f
        if hasattr(self._adc, "read_uv"):
            volts = self._adc.read_uv() / 1e6  # calibrated: knows its reference
        else:
            volts = self._adc.read_u16() * f["reference"] / 65535
        yield self._name, f["unit"], volts * f["scale"] + f["offset"]
