"""A batch of messages that are written and acknowledged together."""

import time

from inflight_tools.fleet.collect.line import line

# The limit is half of mosquitto's max_inflight_messages, so that it keeps sending while a batch is written.
_MESSAGES, _BYTES = 1000, 4 << 20


class Batch:
    """Lines of the collector `by`, with payloads of up to `most` bytes; messages are counted in `counters`."""

    def __init__(self, by, most, counters):
        self._by, self._most, self._counters = by, most, counters
        self.clear()

    def clear(self):
        self._lines, self._size = [], 0
        self.ids = []  # to acknowledge, in the order of receipt
        self.received = []  # times of time.monotonic()

    def __len__(self):
        return len(self._lines)

    @property
    def full(self):
        return len(self._lines) >= _MESSAGES or self._size >= _BYTES

    def data(self):
        return b"".join(self._lines)

    def add(self, message):
        """A paho.MQTTMessage."""
        try:
            topic = message.topic
        except (
            UnicodeDecodeError
        ):  # no broker should deliver it; after an exception it would be redelivered without end
            topic = message._topic.decode(errors="backslashreplace")
        at, payload = time.time_ns() // 1_000_000, message.payload
        made = line(at, self._by, topic, message.qos, message.dup, message.retain, payload, self._most)
        self._lines.append(made)
        self._size += len(made)
        self.received.append(message.timestamp)
        if message.qos:
            self.ids.append(message.mid)
        self._counters.received(len(payload), message.dup, len(payload) > self._most)
