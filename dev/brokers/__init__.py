"""The brokers that the interoperability suite talks to, and what each promises and breaks."""

from .aedes import Aedes
from .amqtt import Amqtt
from .mosquitto import Mosquitto
from .rabbitmq import Rabbitmq

BROKERS = (Mosquitto, Amqtt, Aedes, Rabbitmq)
