"""What Inflight and Paho cost on CPython at level 5, as JSON: `on_cpython.py memory CONTENDER PORT`, or `on_cpython.py
rates PORT MESSAGES ROUNDS`, of clients that take turns in one process, so that what else the machine does hits them
alike. PORT is that of a responder. The search path has the drivers in device/."""

import json
import sys
import tracemalloc
from statistics import median
from time import perf_counter

import ours
import ours_level_5
from raw import PAYLOAD, TOPIC

ROWS = {"qos0": (0, 1), "qos1": (1, 1), "qos1_window20": (1, 20)}  # name: (QoS, messages in flight)
_WAIT_S = 10


def inflight(port, name, window):
    return ours_level_5.Contender(port, name, window, True, bytearray(1024), ours.journal(""))


class Paho:
    """It is driven by its own loop in this thread, which is faster than its thread is."""

    def __init__(self, port, name, window):
        from paho.mqtt.client import Client, MQTTv5
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


CONTENDERS = {"Inflight": inflight, "Paho": Paho}


def memory(name, port):
    """Bytes: {client: connected, with all that it imports, publish: the most that a message of QoS 1 takes until it is
    acknowledged}."""
    tracemalloc.start()
    client = CONTENDERS[name](int(port), "trip0", 1)
    client.round(1, 20, 1)
    connected = tracemalloc.get_traced_memory()[0]
    peaks = []
    for _ in range(20):
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        client.round(1, 1, 1)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    client.close()
    return {"client": connected, "publish": int(median(peaks))}


def rates(port, n, rounds):
    """{row: {contender: median messages/s}}."""
    n = int(n)
    found = {}
    for row, (qos, window) in ROWS.items():
        clients = {name: make(int(port), "trip0" if qos else "sink", window) for name, make in CONTENDERS.items()}
        samples = {name: [] for name in clients}
        for _ in range(int(rounds)):
            for name, client in clients.items():
                start = perf_counter()
                client.round(qos, n, window)
                samples[name].append(n / (perf_counter() - start))
        for client in clients.values():
            client.close()
        found[row] = {name: median(several) for name, several in samples.items()}
    return found


if __name__ == "__main__":
    figures: dict = {"memory": memory, "rates": rates}
    print(json.dumps(figures[sys.argv[1]](*sys.argv[2:])))
