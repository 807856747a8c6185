# A pin with a duty cycle in percent: a dimmer, a fan, a heater.

from actuator_switch import on_or_off
from sensors import NEEDED, SensorError, pin

FIELDS = {"pin": NEEDED, "freq": 1000, "invert": False}


class Driver:
    KIND = "percent"
    ON = {"state": 100}
    OFF = {"state": 0}

    def __init__(self, fields, name):
        from machine import PWM

        self._invert = fields["invert"]
        self._pwm = PWM(pin(fields["pin"]))
        try:
            self._pwm.freq(int(fields["freq"]))
        except ValueError as e:
            raise SensorError("freq %s: not a frequency of this board (%s)" % (fields["freq"], e))

    def change(self, text, state):
        new = on_or_off(self, text, state["state"] > 0)
        if new:
            return new
        try:
            percent = float(text)
        except ValueError:
            percent = -1
        if not 0 <= percent <= 100:
            raise ValueError("write a number from 0 to 100, on, off or toggle")
        return {"state": int(percent) if percent == int(percent) else percent}

    def set(self, state):
        duty = int(state["state"] * 655.35 + 0.5)
        self._pwm.duty_u16(65535 - duty if self._invert else duty)
