# What the device does with a reading, with a network or without one: below the limit the relay is on.

from actuators import actuators

LIMIT = 0.3


def on_reading(name, value):
    if name == "template":
        actuators["relay"].set("on" if value < LIMIT else "off")
