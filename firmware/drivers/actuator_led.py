# WS2812 LEDs ("NeoPixel"), all in one colour, with MicroPython's own driver.

from binascii import unhexlify

from actuator_switch import on_or_off
from sensors import NEEDED, SensorError, pin

FIELDS = {"pin": NEEDED, "count": 1}


class Driver:
    KIND = "light"
    ON = {"state": "on", "color": "#ffffff"}
    OFF = {"state": "off", "color": "#ffffff"}

    def __init__(self, fields, name):
        from neopixel import NeoPixel

        if not 1 <= fields["count"] <= 1000:
            raise SensorError("count: write how many LEDs there are, 1 to 1000")
        self._leds = NeoPixel(pin(fields["pin"]), int(fields["count"]))

    def change(self, text, state):
        new = on_or_off(self, text, state["state"] == "on")
        if new:
            return {"state": new["state"], "color": state["color"]}
        try:
            if len(text) != 7 or text[0] != "#":
                raise ValueError
            unhexlify(text[1:])
        except ValueError:
            raise ValueError("write on, off, toggle or a colour like #ff8000")
        return {"state": "on", "color": text.lower()}

    def set(self, state):
        color = tuple(unhexlify(state["color"][1:])) if state["state"] == "on" else (0, 0, 0)
        self._leds.fill(color)
        self._leds.write()
