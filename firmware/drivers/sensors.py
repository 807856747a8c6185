# The sensors of the configuration. Each entry names a driver, which is the module sensor_<driver> with
#
#   FIELDS     {field of the entry: default}, NEEDED if there is none
#   Driver     Driver(fields, name) opens the hardware, or raises an exception
#     .read()  yields (name, unit, value) like a board's sensors()
#     .start() optional: starts a measurement and returns how many ms it takes; read() then does
#              not wait
#     .READINGS  needed if their names are not the entry's alone: {end of a name: (least, most)}, what its sensor can
#              measure of it; None: anything
#
# A driver is imported when an entry names it. An error is reported in the health message under the sensor's name, and
# the driver is created again at the next reading, since a sensor may be plugged in later.
#
# What is no measurement is an error, never a value. A driver asks measured() for the bits that its sensor sent, where
# these have no checksum, or one that is right for zeros; the value of each reading has to be within its range.

from errno import EIO

NEEDED = "needed"
# Drivers that share a module.
_SAME = {"dht11": "dht", "dht22": "dht", "bmp280": "bme280", "sht3x": "sht", "sht4x": "sht"}
KNOWN = (
    "adc, bh1750, bme280, bmp280, counter, dht11, dht22, digital, ds18x20, ds3231, hx711, ina219, scd4x, sht3x, sht4x, "
    "vl53l0x"
)
# For readings of which a driver declares no range: beyond these there is nothing to measure.
_RANGES = {"Cel": (-273.15, 10_000), "%RH": (0, 100)}


class SensorError(ValueError):
    """What is wrong with an entry of `sensors` or `actuators`, and how to correct it."""


class Sensor:
    """The sensor that `entry` (a dict) describes, a source of telemetry. error: of the measurement."""

    def __init__(self, entry):
        self._entry = entry
        self._driver = None
        self.error = None
        self.__name__ = entry.get("name") or entry["driver"]

    def start(self):
        """Starts a measurement. Returns how many ms it takes."""
        self.error = None
        try:
            if not self._driver:
                self._driver = make("sensor", self._entry, self.__name__, KNOWN)
            begin = getattr(self._driver, "start", None)
            return begin() if begin else 0
        except Exception as e:
            self._failed(e)
            return 0

    def __call__(self):
        """Returns a list of (name, unit, value). Raises an error that occurred since start(), and ValueError if a value
        is beyond its range: then what came with it is not to be believed either."""
        if self.error:
            raise self.error
        try:
            readings = list(self._driver.read())
            ranges = getattr(self._driver, "READINGS", _RANGES)
            for name, unit, value in readings:
                within(ranges.get(name[len(self.__name__) :]) or _RANGES.get(unit), name, value)
            return readings
        except Exception as e:
            self._failed(e)
            raise

    def _failed(self, error):
        # The next start() creates it again.
        self._driver = None
        self.error = error


def within(limits, name, value):
    """Returns `value` if it is within `limits`, (least, most) or None, or no number. Raises ValueError."""
    if limits and isinstance(value, (int, float)) and not limits[0] <= value <= limits[1]:
        text = "%s %s: it measures from %s to %s, check its wires and its power"
        raise ValueError(text % (name, value, limits[0], limits[1]))
    return value


def measured(raw, bits, *marks):
    """Returns `raw`, the number in so many bits that a sensor sent. Raises OSError if all of them are alike, as on a
    wire that nobody drives, and for `marks`, by which the sensor tells that it has not measured."""
    if raw in (0, (1 << bits) - 1) or raw in marks:
        raise OSError(EIO, "it has not measured: check its wires and its power")
    return raw


def make(kind, entry, name, known):
    """Returns the Driver of `entry`, from the module <kind>_<driver>. known: the drivers of this kind, as text. Raises
    SensorError, and what the driver raises."""
    try:
        module = __import__(module_of(kind, entry["driver"]))
        return module.Driver(checked_fields(entry, module.FIELDS), name)
    except ImportError as e:
        raise SensorError(missing(kind, entry["driver"], known, str(e)))


def module_of(kind, driver):
    """The name of the module of a driver."""
    return "%s_%s" % (kind, _SAME.get(driver, driver))


def missing(kind, driver, known, text):
    """What to do about the ImportError `text` of a driver; kind, known: as for make()."""
    # MicroPython and CPython put the missing name in quotes.
    name = text.split("'")[1] if text.count("'") > 1 else ""
    if name.startswith(kind + "_"):
        from suggestion import unknown

        return "%s (or copy a module %s to the device)" % (unknown("unknown driver", driver, known.split(", ")), name)
    if name in ("onewire", "ds18x20", "dht", "neopixel"):
        return "needs %s: run mpremote mip install %s" % (name, name)
    return "this machine has no such pins: " + text


def checked_fields(entry, known):
    """The fields that a Driver gets of `entry`, with the defaults of `known`, its FIELDS. Raises SensorError."""
    fields = {}
    for name in entry:
        if name not in known and name not in ("driver", "name"):
            from suggestion import unknown

            raise SensorError(unknown("unknown field", name, known))
    for name, default in known.items():
        value = entry.get(name, default)
        if value is NEEDED:
            raise SensorError('%s is missing: write "%s": ...' % (name, name))
        kind = _kind(default)
        if default is not NEEDED and _kind(value) != kind:  # pins have numbers on one board and names on another
            raise SensorError("%s: write %s" % (name, kind))
        fields[name] = value
    fields["driver"] = entry["driver"]
    return fields


def _kind(value):
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, (int, float)) else "a text in quotes"


def pin(number, *how, **more):
    """machine.Pin of that number or name. Raises SensorError if the board has no such pin."""
    from machine import Pin

    try:
        return Pin(number, *how, **more)
    except (ValueError, TypeError) as e:
        raise SensorError("pin %s: not a pin of this board that can do this (%s)" % (number, e))
