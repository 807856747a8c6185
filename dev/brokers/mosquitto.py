"""mosquitto, as `make setup` brings it."""

from dev.demo import mosquitto

from .traits import Traits


class Mosquitto(mosquitto.Mosquitto, Traits):
    survives_kill = False  # what came since it last saved (autosave_interval) is forgotten
    unavailable = staticmethod(mosquitto.unavailable)
