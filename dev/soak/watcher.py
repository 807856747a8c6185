"""The witness of a soak: what the broker delivers, and what real firmware tells of its heap."""

import json
import time
from collections import defaultdict

from dev.demo.witness import Witness


class Watcher(Witness):
    """`heap`: (seconds since the start, free bytes) of each device that tells it in its health messages."""

    def __init__(self, port):
        super().__init__(port)
        self.heap = defaultdict(list)
        self._began = time.monotonic()

    def _take(self, client, userdata, message):
        _, device, what = message.topic.split("/", 2)
        if what == "health":
            free = json.loads(message.payload).get("heap")
            if free:
                self.heap[device].append((time.monotonic() - self._began, free))
        super()._take(client, userdata, message)
