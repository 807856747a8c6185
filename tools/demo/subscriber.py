"""An independent subscriber (Paho) that counts the messages that the broker delivers."""

import json
import threading
from collections import Counter

import paho.mqtt.client as paho

from tools.peers import mosquitto

NAME = "operator"  # its user


def number(topic, payload):
    """(device, epoch, sequence number) of a sensor's message; None if it has no number, like a will message."""
    fields = json.loads(payload)
    if isinstance(fields, list):
        fields = fields[0]
    return None if "seq" not in fields else (topic.split("/")[1], fields["epoch"], fields["seq"])


def numbers(topic, payload):
    """All that a message stands for, as number() tells them: the readings that are gathered in it have their own."""
    found = number(topic, payload)
    fields = json.loads(payload)
    rows = len(fields.get("rows", "1")) if isinstance(fields, dict) else 1
    return [(*found[:2], found[2] + row) for row in range(rows)] if found else []


class Subscriber:
    """Subscribes to everything at QoS 2 with a persistent session. `seen` counts each (device, sequence number);
    `epochs`: the journal epochs of each device."""

    def __init__(self, port):
        self.seen = Counter()
        self.epochs = {}
        self.unreadable = []
        self._lock = threading.Lock()
        self._subscribed = threading.Event()
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, "subscriber", clean_session=False)
        self._client.on_connect = lambda client, *_: client.subscribe("inflight/#", 2)
        self._client.username_pw_set(NAME, mosquitto.password(NAME))
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        self._client.on_message = self._take
        self._port = port

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
        with self._lock:
            try:
                keys = numbers(message.topic, message.payload)
            except (ValueError, KeyError, IndexError, TypeError):
                self.unreadable.append((message.topic, message.payload))
                return
            for device, epoch, seq in () if message.retain else keys:
                self.epochs.setdefault(device, set()).add(epoch)
                self.seen[device, seq] += 1

    def total(self):
        """Deliveries, repeated ones included."""
        with self._lock:
            return sum(self.seen.values())

    def counts(self):
        with self._lock:
            return Counter(self.seen)
