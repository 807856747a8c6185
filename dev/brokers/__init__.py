"""The brokers of the interoperability tests, and their deviations from the standard."""

from .aedes import Aedes
from .amqtt import Amqtt
from .mosquitto import Mosquitto
from .rabbitmq import Rabbitmq

BROKERS = (Mosquitto, Amqtt, Aedes, Rabbitmq)
