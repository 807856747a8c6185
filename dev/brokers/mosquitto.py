"""mosquitto, as `make setup` installs it."""

from dev.demo import mosquitto

from .traits import Traits


class Mosquitto(mosquitto.Mosquitto, Traits):
    survives_kill = False  # messages since the last save (autosave_interval) are lost
    unavailable = staticmethod(mosquitto.unavailable)
