"""Inflight and Paho at level 5 on CPython: `python -m dev.bench.figures.on_cpython PORT MESSAGES ROUNDS` measures both
against a responder on that port, and prints JSON. Clients take turns in one process, so that what else the machine does
hits them alike; memory is what tracemalloc tells."""

import json
import subprocess
import sys
import tracemalloc
from statistics import median
from time import perf_counter

from dev.setup.common import CHECKOUT

TOPIC, PAYLOAD = "sensors/attic/temperature", b"x" * 64
ROWS = {"qos0": (0, 1), "qos1": (1, 1), "qos1_window20": (1, 20)}  # name: (QoS, messages in flight)
_WAIT_S = 10


class Inflight:
    def __init__(self, port, name, level, window):
        from inflight import Client, Journal, RamFlash

        options = {"port": port, "protocol_level": level, "max_inflight": window, "keepalive": 0}
        self._client = Client("127.0.0.1", name, Journal(RamFlash(8, 1024)), **options)
        self._client.connect()

    def round(self, qos, n, window):
        for _ in range(n):
            self._client.publish(TOPIC, PAYLOAD, qos)
            if qos and window == 1:
                self._client.drain(_WAIT_S * 1000)
        self._client.drain(_WAIT_S * 1000)

    def close(self):
        self._client.disconnect()


class Paho:
    """It is driven by its own loop in this thread, which is faster than its thread is."""

    def __init__(self, port, name, level, window):
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        self._client = Client(CallbackAPIVersion.VERSION2, name, protocol=level)
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


CONTENDERS = {"Inflight": Inflight, "Paho": Paho}


def memory(name, port):
    """Bytes: {client: connected, with all that it imports, publish: the most that a message of QoS 1 takes until it is
    acknowledged}."""
    tracemalloc.start()
    client = CONTENDERS[name](port, "trip0", 5, 1)
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
    found = {}
    for row, (qos, window) in ROWS.items():
        clients = {name: kind(port, "trip0" if qos else "sink", 5, window) for name, kind in CONTENDERS.items()}
        samples = {name: [] for name in clients}
        for _ in range(rounds):
            for name, client in clients.items():
                start = perf_counter()
                client.round(qos, n, window)
                samples[name].append(n / (perf_counter() - start))
        for client in clients.values():
            client.close()
        found[row] = {name: median(several) for name, several in samples.items()}
    return found


def measure(port, n, rounds):
    """Both, in processes of their own: what was imported for one must not be there for the other."""

    def run(*words):
        command = [sys.executable, "-m", __name__, *map(str, words)]
        return json.loads(subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.PIPE).stdout)

    return {"memory": {name: run("memory", name, port) for name in CONTENDERS}, "rates": run("rates", port, n, rounds)}


def main(part, *words):
    if part == "memory":
        found = memory(words[0], int(words[1]))
    else:
        found = rates(*map(int, words))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
