# A pin that is on or off: a relay, a transistor.

from sensors import NEEDED, pin


def on_or_off(driver, text, is_on):
    """The state that the command `text` asks for: on, off, or toggle; None for any other text."""
    if text == "toggle":
        text = "off" if is_on else "on"
    return {"on": driver.ON, "off": driver.OFF}.get(text)


FIELDS = {"pin": NEEDED, "invert": False}


class Driver:
    KIND = "switch"
    ON = {"state": "on"}
    OFF = {"state": "off"}

    def __init__(self, fields, name):
        self._number = fields["pin"]
        self._invert = fields["invert"]
        self._pin = None

    def change(self, text, state):
        new = on_or_off(self, text, state == self.ON)
        if not new:
            raise ValueError("write on, off or toggle")
        return new

    def set(self, state):
        from machine import Pin

        level = (state == self.ON) != self._invert
        if self._pin:
            self._pin.value(level)
        else:  # an output from the start with the right level
            self._pin = pin(self._number, Pin.OUT, value=level)
