"""Messages that are written and acknowledged together."""

import time

from inflight_tools.fleet.collect.line import line

_MAX_MESSAGES = 1000  # half of mosquitto's max_inflight_messages: it keeps sending while a batch is written
_MAX_BYTES = 4 << 20


class Batch:
    """Lines of the collector `by`. Payloads are cut to `max_payload` bytes. `counters` counts the messages."""

    def __init__(self, by, max_payload, counters):
        self._by, self._max_payload, self._counters = by, max_payload, counters
        self.clear()

    def clear(self):
        self._lines, self._size = [], 0
        self.ids = []  # Message IDs to acknowledge, in the order of receipt
        self.received = []  # times of receipt, as time.monotonic() gives them

    def __len__(self):
        return len(self._lines)

    @property
    def full(self):
        return len(self._lines) >= _MAX_MESSAGES or self._size >= _MAX_BYTES

    def data(self):
        return b"".join(self._lines)

    def add(self, message, dropped):
        """Adds a paho.MQTTMessage; at level 5 one of Client5. dropped: bytes at the end of its payload that are not in
        it."""
        try:
            topic = message.topic
        except UnicodeDecodeError:
            # No broker should deliver such a topic. An exception here would make it redeliver the message forever.
            topic = message._topic.decode(errors="backslashreplace")
        at, payload = time.time_ns() // 1_000_000, message.payload
        flags, block = (message.qos, message.dup, message.retain), message.properties or b""
        length = len(payload) + dropped
        added = line(at, self._by, topic, *flags, payload, self._max_payload, block, length)
        self._lines.append(added)
        self._size += len(added)
        self.received.append(message.timestamp)
        if message.qos:
            self.ids.append(message.mid)
        self._counters.received(length, message.dup, length > self._max_payload)
