# The pin that ends the deep sleep of an ESP32, beside the time. Loaded by a device that has one, and for the check of a
# configuration.

import sys

import esp32
import machine

_PINS = "0, 2, 4, 12-15, 25-27, 32-39 on an ESP32, 0-21 on an S2 or S3, 0-7 on a C6"


def _kind():
    # Of chip: "C6"; of an ESP32 other letters.
    return getattr(sys.implementation, "_machine", "").split("with ")[-1].replace("-", "")[5:7]


def _arm(pins, level):
    kind = _kind()
    if kind not in ("C2", "C3", "C5", "C6", "H2", "P4"):  # MicroPython before 1.26 has that function there, too
        esp32.wake_on_ext0(pins[0] if pins else None, level)
    elif kind == "C6":
        esp32.wake_on_ext1(pins, level)
    else:
        raise ValueError("MicroPython cannot wake this board by a pin: leave it out")


def check(number):
    _arm((), True)
    try:
        pin = machine.Pin(number)
        if _kind() == "C6" and number > 7:  # MicroPython 1.27 has the pins of the ESP32 here
            raise ValueError
        _arm((pin,), True)
    except ValueError:
        raise ValueError("pin %d cannot wake this board: the pins that can are %s" % (number, _PINS))
    finally:
        _arm((), True)


def woke():
    return machine.wake_reason() in (machine.EXT0_WAKE, machine.EXT1_WAKE)


def level(number):
    return machine.Pin(number, machine.Pin.IN).value()


def arm(number, level):
    _arm((machine.Pin(number, machine.Pin.IN),), bool(level))
