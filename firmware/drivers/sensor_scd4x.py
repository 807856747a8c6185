# Sensirion SCD40, SCD41 and SCD43 on I2C: CO2, temperature and humidity. They measure every 5 s, also while the device
# sleeps or restarts: only so does their CO2 calibration correct itself.

from errno import EIO

from i2c import Chip
from inflight.compat import const, sleep_ms
from sensirion import temperature, words
from sensors import NEEDED

FIELDS = {"sda": NEEDED, "scl": NEEDED}
_ADDRESS = const(98)
_START = b"\x21\xb1"
_READY = b"\xe4\xb8"
_READ = b"\xec\x05"
_ANSWER_MS = const(2)  # 1 at most
_PERIOD_MS = const(5500)
_MOST = const(40_000)  # ppm


class Driver:
    READINGS = {"-co2": None, "-temperature": (-10, 60), "-humidity": None}

    def __init__(self, fields, name):
        self._name = name
        self._chip = chip = Chip(fields, (_ADDRESS,))
        self._is_ready()  # raises an exception if there is no chip
        try:
            chip.write(_START)
        except OSError:
            pass  # it measures already: it refuses all but a few commands then

    def _ask(self, command, n):
        self._chip.write(command)
        sleep_ms(_ANSWER_MS)
        return words(self._chip.read(n))

    def _is_ready(self):
        return self._ask(_READY, 3)[0] & 0x7FF

    def start(self):
        return 0 if self._is_ready() else _PERIOD_MS

    def read(self):
        if not self._is_ready():
            raise OSError(EIO, "still measuring")
        co2, degrees, humidity = self._ask(_READ, 9)
        if not 0 < co2 <= _MOST:
            co2 = OSError(EIO, "%d ppm: it has not measured, check its power" % co2)
        yield self._name + "-co2", "ppm", co2
        yield self._name + "-temperature", "Cel", temperature(degrees)
        yield self._name + "-humidity", "%RH", humidity * 100 / 65535
