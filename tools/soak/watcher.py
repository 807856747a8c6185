"""The subscriber of a soak: records delivered messages, and the free heap that real firmware reports."""

import json
import time
from collections import defaultdict

from tools.demo.subscriber import Subscriber


class Watcher(Subscriber):
    """`heap`: for each device, (seconds since the start, free bytes) from its health messages."""

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
