"""An independent MQTT client (Paho) that records what a broker delivers."""

import json
import threading
from typing import NamedTuple

import paho.mqtt.client as paho

from tools.peers import mosquitto


class Delivered(NamedTuple):
    topic: str
    qos: int
    payload: bytes

    @property
    def fields(self):
        """The JSON object in a sensor's message; the first record of a SenML pack; {} for other payloads."""
        found = json.loads(self.payload)
        if isinstance(found, list):
            found = found[0]
        return found if isinstance(found, dict) else {}


class Subscriber:
    """Subscribes to `topics` at QoS 2 on the broker at `port`, with a persistent session named `name`, as the user of a
    fleet's broker, if there is one. messages: all received messages, in order, without retained ones from before the
    subscription."""

    def __init__(self, port, topics, name="subscriber", user=None):
        self.messages = []
        self._port = port
        self._subscribed = threading.Event()
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, f"{name} at {topics}", clean_session=False)
        self._client.on_connect = lambda client, *_: client.subscribe(topics, 2)
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        self._client.on_message = self._take
        self._client.reconnect_delay_set(1, 1)
        if user:
            self._client.username_pw_set(user, mosquitto.password(user))

    def join(self):
        """Connects; the broker has queued the messages of the meantime."""
        self._subscribed.clear()
        self._client.connect("127.0.0.1", self._port)
        self._client.loop_start()
        if not self._subscribed.wait(10):
            raise RuntimeError("the broker does not let the subscriber subscribe")

    def leave(self):
        self._client.disconnect()
        self._client.loop_stop()

    def __enter__(self):
        self.join()
        return self

    def __exit__(self, *_):
        self.leave()

    def _take(self, client, userdata, message):
        if not message.retain:
            self.messages.append(Delivered(message.topic, message.qos, message.payload))

    def publish(self, topic, payload, qos=2):
        self._client.publish(topic, payload, qos)

    def numbers(self):
        """Those of all messages that have one."""
        return {one.fields["seq"] for one in list(self.messages) if "seq" in one.fields}

    def find(self, topic):
        """The messages to `topic` so far."""
        return [one for one in list(self.messages) if one.topic == topic]
