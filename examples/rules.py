# A rule of your own: above 30 degrees Celsius the relay is on, else it is off.
#
# The firmware calls on_reading() of the module rules with each reading, here with that of the sensor
# {"driver": "ds18x20", "pin": 4, "name": "attic"}; the relay is the actuator
# {"driver": "switch", "pin": 15, "name": "relay"}. docs/drivers.md tells how it gets onto a device.

from actuators import actuators


def on_reading(name, value):
    if name == "attic":
        actuators["relay"].set("on" if value > 30 else "off")
