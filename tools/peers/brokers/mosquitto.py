"""mosquitto, as `make setup` installs it."""

from tools.peers import mosquitto
from tools.peers.brokers.traits import Traits


class Mosquitto(mosquitto.Mosquitto, Traits):
    saves_clean_start = False  # it saves a session of level 5 from the second connection on, that without Clean Start
    survives_kill = False  # messages since the last save (autosave_interval) are lost
    unavailable = staticmethod(mosquitto.unavailable)
