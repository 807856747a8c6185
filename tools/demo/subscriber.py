"""An independent subscriber (Paho) that counts the messages that the broker delivers."""

import json
import threading
from collections import Counter, defaultdict

from tools.peers import subscriber

NAME = "operator"  # its user
ROOT = "inflight"  # the first level of the topics


def numbers(topic, payload):
    """[(device, epoch, sequence number)] of all that a message stands for: the readings that are gathered in it have
    their own; a will message has none."""
    fields = json.loads(payload)
    first = fields[0] if isinstance(fields, list) else fields
    rows = range(len(fields.get("rows", "1"))) if isinstance(fields, dict) else range(1)
    return [(topic.split("/")[1], first["epoch"], first["seq"] + row) for row in rows if "seq" in first]


class Subscriber(subscriber.Subscriber):
    """Subscribes to all messages of a fleet. `seen` counts each (device, sequence number); `epochs`: the journal epochs
    of each device; `heap`: for each device the free bytes that its health messages tell."""

    def __init__(self, port):
        super().__init__(port, f"{ROOT}/#", user=NAME)
        self.seen = Counter()
        self.epochs = {}
        self.heap = defaultdict(list)
        self.unreadable = []
        self._lock = threading.Lock()

    def _take(self, client, userdata, message):
        with self._lock:
            try:
                keys = numbers(message.topic, message.payload)
            except (ValueError, KeyError, IndexError, TypeError):
                self.unreadable.append((message.topic, message.payload))
                return
            if message.topic.endswith("/health") and (free := json.loads(message.payload).get("heap")):
                self.heap[message.topic.split("/")[1]].append(free)
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
