"""The cost of durability for the collector: messages/s with and without fsync."""

import json
import os
import statistics
import threading
import time
from contextlib import contextmanager

import paho.mqtt.client as paho

from inflight_tools.broker import Broker
from inflight_tools.fleet.collect.collector import Collector, filters
from inflight_tools.fleet.collect.spool import Spool
from tools.peers.mosquitto import Mosquitto

_NAME, _ROOT = "bench", "bench"
_PATIENCE_S = 120
_PAYLOAD = json.dumps(
    [
        {"bn": "urn:dev:mac:0123456789ab:", "bt": 1700000000, "seq": 1234567, "epoch": 305419896},
        {"n": "temperature", "u": "Cel", "v": 21.5},
        {"n": "humidity", "u": "%RH", "v": 44.25},
        {"n": "battery", "u": "V", "v": 3.01},
    ],
    separators=(",", ":"),
).encode()


def measure(folder, messages, runs):
    """Medians of `runs` runs with and without fsync, in turn, in `folder`. The messages wait in the collector's session
    when it connects, so only the broker and the collector work meanwhile."""
    kinds = {"with fsync": os.fsync, "without": lambda fd: None}
    lines = "max_inflight_messages 2000", "max_queued_messages 0", "persistence false"
    with Mosquitto(folder / "broker", *lines) as broker:
        found = [
            {kind: _run(folder / f"{kind}-{n}", broker.port, messages, sync) for kind, sync in kinds.items()}
            for n in range(runs)
        ]
    return {kind: {row: statistics.median(run[kind][row] for run in found) for row in found[0][kind]} for kind in kinds}


def _run(landing, port, messages, sync):
    """The figures of a collector with a backlog of `messages`."""
    _fill(port, messages)
    collector = None

    def synced(fd):
        sync(fd)
        if collector and collector.counters.messages >= messages:
            collector.stop()

    spool = Spool(landing, _NAME, sync=synced)
    broker = Broker("127.0.0.1", port, _ROOT, None, None, None, None)
    collector = Collector(broker, _NAME, spool, lambda text: None, landing / ".bench.json", report=1e9)
    start, cpu_start = time.perf_counter(), time.process_time()
    collector.run()
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
    return {
        f"messages/s, of {len(_PAYLOAD)} bytes": messages / seconds,
        "messages in a batch": messages / collector.counters.batches,
        # Of the collector's process; varies less than the rate on a busy machine.
        "µs of processor per message": 1e6 * cpu_s / messages,
    }


def _fill(port, messages):
    """Makes a new session for the collector, and fills it with messages."""
    with client(port, _NAME, True):
        pass
    with client(port, _NAME, False) as absent:
        subscribed = threading.Event()
        absent.on_subscribe = lambda *_: subscribed.set()
        absent.subscribe([(name, 1) for name in filters(_ROOT)])
        _in_time(subscribed)
    with client(port, "bench-publisher", True) as publisher:
        for n in range(messages):
            last = publisher.publish(f"{_ROOT}/device-{n % 1000}/telemetry", _PAYLOAD, 1)
        last.wait_for_publish(_PATIENCE_S)
        if not last.is_published():
            raise RuntimeError(f"the broker did not take {messages} messages in {_PATIENCE_S} s")


@contextmanager
def client(port, name, clean):
    """A connected paho.Client."""
    found, connected = paho.Client(paho.CallbackAPIVersion.VERSION2, name, clean_session=clean), threading.Event()
    found.max_inflight_messages_set(1000)
    found.on_connect = lambda *_: connected.set()
    found.connect("127.0.0.1", port)
    found.loop_start()
    try:
        _in_time(connected)
        yield found
    finally:
        found.disconnect()
        found.loop_stop()


def _in_time(event):
    if not event.wait(_PATIENCE_S):
        raise RuntimeError(f"the broker did not answer in {_PATIENCE_S} s")
