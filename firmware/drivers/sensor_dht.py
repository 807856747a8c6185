# DHT11 and DHT22, with MicroPython's own driver.

from errno import ETIMEDOUT

from sensors import NEEDED, pin

FIELDS = {"pin": NEEDED}


class Driver:
    def __init__(self, fields, name):
        import dht

        self._name = name
        self._dht = (dht.DHT11 if fields["driver"] == "dht11" else dht.DHT22)(pin(fields["pin"]))

    def read(self):
        try:
            self._dht.measure()
        except OSError as e:
            if e.errno != ETIMEDOUT:
                raise
            raise OSError(ETIMEDOUT, "no answer: check the wires and the pull-up resistor")
        yield self._name + "-temperature", "Cel", self._dht.temperature()
        yield self._name + "-humidity", "%RH", self._dht.humidity()
