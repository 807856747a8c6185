# DHT11 and DHT22, with MicroPython's own driver, which checks the sum.

from errno import ETIMEDOUT

from sensors import NEEDED, SensorError, measured, pin

FIELDS = {"pin": NEEDED}
_DEGREES = {"dht11": (-20, 60), "dht22": (-40, 80)}


class Driver:
    def __init__(self, fields, name):
        import dht

        self._name = name
        self._driver = fields["driver"]
        self.READINGS = {"-temperature": _DEGREES[self._driver], "-humidity": None}
        self._dht = (dht.DHT11 if self._driver == "dht11" else dht.DHT22)(pin(fields["pin"]))

    def read(self):
        try:
            self._dht.measure()
        except OSError as e:
            if e.errno != ETIMEDOUT:
                raise
            raise OSError(ETIMEDOUT, "no answer: check the wires and the pull-up resistor")
        d = self._dht.buf
        measured(int.from_bytes(d[:4], "big"), 32)  # the sum of zeros is right
        if self._driver == "dht11":
            if d[1] > 9 or d[3] & 0x7F > 9:  # tenths
                raise SensorError("it answers as a DHT22 does: write dht22")
            tenths = d[2] * 10 + (d[3] & 0x7F)
            negative = d[3] & 0x80
            humidity = d[0] * 10 + d[1]
        else:
            tenths = (d[2] & 0x7F) << 8 | d[3]
            negative = d[2] & 0x80
            humidity = d[0] << 8 | d[1]
            if humidity >= 0x1400:  # 20 % of a DHT11, 512 % of a DHT22
                raise SensorError("it answers as a DHT11 does: write dht11")
            if d[2] & 0xC0 == 0xC0:  # in two's complement, as some send it: a magnitude has no such bit
                tenths = 0x8000 - tenths
        yield self._name + "-temperature", "Cel", (-tenths if negative else tenths) / 10
        yield self._name + "-humidity", "%RH", humidity / 10
