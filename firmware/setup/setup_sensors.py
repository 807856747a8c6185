# The sensors that the buses of a board show, for the page of the set-up. Each driver that knows an address is asked for
# readings: so chips with the same address are told apart, and a person sees what they measure. Loaded for a search;
# unloads all that it loads.

import sys

from inflight.compat import const, sleep_ms

_MOST = const(8)
# Drivers of I2C, and the addresses of their chips.
_CHIPS = (
    ("bh1750", (35, 92)),
    ("bme280", (118, 119)),
    ("ds3231", (104,)),
    ("scd4x", (98,)),
    ("sht3x", (68, 69)),
    ("sht4x", (68, 69)),
    ("vl53l0x", (41,)),
    ("ina219", range(64, 80)),
)


def answering(sda, scl, wire):
    """Returns a list of (entry for `sensors`, what it measures now) at these pins, 1-Wire at the last one; None if this
    machine has no pins. Takes some seconds."""
    from unload import since

    before = list(sys.modules)
    try:
        from machine import Pin, SoftI2C

        entries = []
        # A bus that is held low has no sensor that answers: a search would wait at each address.
        low = [number for number in (sda, scl, wire) if not Pin(number, Pin.IN, Pin.PULL_UP).value()]
        if sda not in low and scl not in low:
            for address in SoftI2C(sda=Pin(sda), scl=Pin(scl)).scan():
                entries += _at(address, sda, scl)
        if wire not in low:
            entries += _measuring({"driver": "ds18x20", "pin": wire})
        return _named(entries)[:_MOST]
    except (ImportError, ValueError, TypeError):
        return None
    finally:
        since(before)


def _at(address, sda, scl):
    # The first driver whose chip it is.
    for driver, addresses in _CHIPS:
        if address in addresses:
            entry = {"driver": driver, "sda": sda, "scl": scl}
            if len(addresses) > 1:
                entry["address"] = address
            found = _measuring(entry)
            if found:
                return found
    return []


def _measuring(entry):
    # [(entry, what it measures)], [] if it measures nothing.
    from sensors import Sensor

    sensor = Sensor(entry)
    try:
        sleep_ms(sensor.start())
        readings = ["%.1f %s" % (value, unit) for _, unit, value in sensor() if isinstance(value, (int, float))]
    except Exception:  # a chip of another kind says anything
        return []
    if entry["driver"] == "bme280" and len(readings) == 2:  # without humidity
        entry["driver"] = "bmp280"
    return [(entry, ", ".join(readings))] if readings else []


def _named(entries):
    # Each has a name of its own.
    names = []
    for entry, _ in entries:
        if entry["driver"] in names:
            entry["name"] = "%s-%d" % (entry["driver"], entry["address"])
        names.append(entry["driver"])
    return entries
