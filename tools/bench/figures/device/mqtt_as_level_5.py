# The driver of mqtt_as at level 5.

import mqtt_as_client
from mqtt_as_client import QOS, journal, load  # noqa: F401


class Contender(mqtt_as_client.Contender):
    options = {"mqttv5": True}
