"""The brokers of the interoperability tests, and their deviations from the standard."""

from tools.peers.brokers.aedes import Aedes
from tools.peers.brokers.amqtt import Amqtt
from tools.peers.brokers.mosquitto import Mosquitto
from tools.peers.brokers.rabbitmq import Rabbitmq

BROKERS = (Mosquitto, Amqtt, Aedes, Rabbitmq)
