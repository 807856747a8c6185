"""What a broker delivers, heard by a client that is not ours."""

import json
import threading
from typing import NamedTuple

import paho.mqtt.client as paho


class Heard(NamedTuple):
    topic: str
    qos: int
    payload: bytes

    @property
    def fields(self):
        """The object that a message of a sensor carries; of a SenML pack the first record. {}: it is no object, but a
        command, say."""
        found = json.loads(self.payload)
        if isinstance(found, list):
            found = found[0]
        return found if isinstance(found, dict) else {}


class Ear:
    """Subscribes to `topics` at QoS 2 on the broker at `port`, with a session of that `name` that outlives both. heard:
    all that came, in order. A retained message that was there before is not new, and is left out."""

    def __init__(self, port, topics, name="ear"):
        self.heard = []
        self._port = port
        self._subscribed = threading.Event()
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, f"{name} at {topics}", clean_session=False)
        self._client.on_connect = lambda client, *_: client.subscribe(topics, 2)
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        self._client.on_message = self._take
        self._client.reconnect_delay_set(1, 1)

    def __enter__(self):
        self._client.connect("127.0.0.1", self._port)
        self._client.loop_start()
        if not self._subscribed.wait(10):
            raise RuntimeError("the broker does not let the ear subscribe")
        return self

    def __exit__(self, *_):
        self._client.disconnect()
        self._client.loop_stop()

    def _take(self, client, userdata, message):
        if not message.retain:
            self.heard.append(Heard(message.topic, message.qos, message.payload))

    def say(self, topic, payload, qos=2):
        """Publishes."""
        self._client.publish(topic, payload, qos)

    def find(self, topic):
        """The messages to `topic` so far."""
        return [one for one in list(self.heard) if one.topic == topic]
