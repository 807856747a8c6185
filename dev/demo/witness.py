"""A subscriber that is not our code: what the broker delivers, counted."""

import json
import threading
from collections import Counter

import paho.mqtt.client as paho


def number(topic, payload):
    """(device, epoch, sequence number) that a message of a sensor carries; None if it carries none,
    as the will that the broker speaks in the device's name."""
    fields = json.loads(payload)
    if isinstance(fields, list):
        fields = fields[0]
    return None if "seq" not in fields else (topic.split("/")[1], fields["epoch"], fields["seq"])


class Witness:
    """Subscribes to everything at QoS 2 with a session that outlives broker restarts. `seen` counts
    each (device, sequence number); `epochs` holds the journal epochs of each device."""

    def __init__(self, port):
        self.seen = Counter()
        self.epochs = {}
        self.unreadable = []
        self._lock = threading.Lock()
        self._subscribed = threading.Event()
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, "witness", clean_session=False)
        self._client.on_connect = lambda client, *_: client.subscribe("demo/#", 2)
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        self._client.on_message = self._take
        self._port = port

    def join(self):
        """Connects; the broker kept for us what came meanwhile."""
        self._subscribed.clear()
        self._client.connect("127.0.0.1", self._port)
        self._client.loop_start()
        if not self._subscribed.wait(10):
            raise RuntimeError("the broker does not let the witness subscribe")

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
                key = number(message.topic, message.payload)
            except (ValueError, KeyError, IndexError, TypeError):
                self.unreadable.append((message.topic, message.payload))
                return
            if key and not message.retain:
                device, epoch, seq = key
                self.epochs.setdefault(device, set()).add(epoch)
                self.seen[device, seq] += 1

    def counts(self):
        with self._lock:
            return Counter(self.seen)
