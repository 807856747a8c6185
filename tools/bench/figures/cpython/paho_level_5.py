"""The driver of Paho at level 5, driven by its own loop in this thread, which is faster than its thread is."""

from time import perf_counter

from raw import PAYLOAD, TOPIC

_WAIT_S = 10


def journal(path):
    return None


class Contender:
    def __init__(self, port, name, window, nodelay, buffer, journal):
        from paho.mqtt.client import Client, MQTTv5  # what is imported counts
        from paho.mqtt.enums import CallbackAPIVersion

        self._client = Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTv5)
        self._client.max_inflight_messages_set(window)
        self._client.max_queued_messages_set(0)
        self._client.on_publish = self._on_publish
        self._client.connect("127.0.0.1", port, keepalive=0)
        self._until(self._client.is_connected)

    def _on_publish(self, *_):
        self._left -= 1

    def _until(self, over):
        end = perf_counter() + _WAIT_S
        while not over():
            if self._client.loop(1) or perf_counter() > end:
                raise OSError("the broker did not answer")

    def round(self, qos, n, window):
        self._left = n
        for i in range(1, n + 1):
            self._client.publish(TOPIC, PAYLOAD, qos)
            if window == 1:
                self._until(lambda i=i: self._left <= n - i)
        self._until(lambda: not self._left)

    def close(self):
        self._client.disconnect()
