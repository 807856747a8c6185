# An actuator driver of your own. This one turns a hobby servo to an angle from 0 to 180 degrees.
#
# The firmware imports the module actuator_<driver> when an entry of `actuators` in config.json names the driver:
#
#   {"driver": "servo", "pin": 16, "name": "flap", "restore": "last"}
#
# docs/drivers.md tells how to make one.

from sensors import NEEDED, pin

FIELDS = {"pin": NEEDED, "closed": 0, "open": 180}


class Driver:
    """fields: what FIELDS lists, from the entry. name: the entry's `name`, or the driver's."""

    KIND = None  # Home Assistant has no servo

    def __init__(self, fields, name):
        from machine import PWM

        self.ON = {"state": fields["open"]}
        self.OFF = {"state": fields["closed"]}
        self._pwm = PWM(pin(fields["pin"]))
        self._pwm.freq(50)

    def change(self, text, state):
        """Returns the state that the command `text` asks for: open, closed, or an angle."""
        if text in ("open", "closed"):
            return self.ON if text == "open" else self.OFF
        if not text.isdigit() or int(text) > 180:
            raise ValueError("write open, closed, or an angle from 0 to 180")
        return {"state": int(text)}

    def set(self, state):
        """Turns it: a pulse of 0.5 to 2.5 ms in each 20 ms."""
        self._pwm.duty_u16((500 + state["state"] * 2000 // 180) * 65535 // 20000)
