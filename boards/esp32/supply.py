# Whether a power-on was a brown-out: the port calls both a power-on, the chip does not. Needed once for each start.

import sys

import machine

_RESET_REASON = {  # register, by chip
    "ESP32": 0x3FF48034,
    "ESP32S2": 0x3F408038,
    "ESP32S3": 0x60008038,
    "ESP32C3": 0x60008038,
    "ESP32C6": 0x600B0410,
}
# Codes of a brown-out: the chip resets by itself, or the handler of a low supply resets it like a program would.
_BROWN_OUT = (15, 3, 12)


def failed():
    """True after a brown-out; False also on a chip whose register is unknown."""
    chip = getattr(sys.implementation, "_machine", "").split("with ")[-1].replace("-", "")
    address = _RESET_REASON.get(chip if chip == "ESP32" else chip[:7])
    sys.modules.pop("supply", None)
    return address is not None and machine.mem32[address] & 0x1F in _BROWN_OUT
