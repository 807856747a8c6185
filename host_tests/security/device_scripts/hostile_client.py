"""`hostile_client.py blocking|asyncio PORT TIMEOUT_MS` delivers six messages to a hostile broker. At the end it prints
JSON: heap in use after the first connection (`first`) and at most (`most`), sectors erased, counters."""

import gc
import json
import os
import sys

import inflight
from inflight import AsyncClient, Client, Journal, RamFlash
from inflight.compat import ticks_diff, ticks_ms

kind, port, timeout = sys.argv[1:]
LIMIT_MS = 60_000
options = {
    "keepalive": 1,
    "timeout_ms": int(timeout),
    "backoff_ms": (20, 200),
    "receive_maximum": 16,
    "on_error": lambda error: None,
}
journal = Journal(RamFlash(4, 1024))
received = [0]


def load_all():
    """Loads each module for good: one that is loaded during a connection attempt, and given back after it, would be
    counted as what the broker makes the client keep. Who finds a module loaded does not give it back."""
    for file in os.listdir(inflight.__path__):
        if file.endswith(".mpy"):
            __import__("inflight." + file.split(".")[0])


def on_message(message):
    received[0] += 1


class Gauge:
    """Bytes of heap in use, without garbage. Only MicroPython reports them."""

    first = most = 0

    def __init__(self):
        if hasattr(gc, "mem_alloc"):
            load_all()

    def read(self):
        if hasattr(gc, "mem_alloc"):
            gc.collect()
            now = gc.mem_alloc()
            self.first = self.first or now
            self.most = max(self.most, now)


gauge = Gauge()
began = ticks_ms()


def late():
    return ticks_diff(ticks_ms(), began) > LIMIT_MS


def blocking():
    client = Client("127.0.0.1", "dev", journal, port=int(port), **options)
    client.subscribe("t/#", 2, on_message)
    for k in range(6):
        client.publish("own", "message %d" % k, 1 + k % 2)
    while client.pending and not late():
        client.run_for(20)
        if client.counters()["connects"]:
            gauge.read()
    client.disconnect()
    return client


async def by_asyncio():
    client = AsyncClient("127.0.0.1", "dev", journal, port=int(port), **options)
    await client.subscribe("t/#", 2, on_message)
    for k in range(6):
        await client.publish("own", "message %d" % k, 1 + k % 2)
    async with client:
        while client.pending and not late():
            await asyncio.sleep(0.02)
            if client.counters()["connects"]:
                gauge.read()
    return client


if kind == "asyncio":
    import asyncio

    done = asyncio.run(by_asyncio())
else:
    done = blocking()
result = done.counters()
result.update(first=gauge.first, most=gauge.most, erases=journal.erases - 4, pending=done.pending, handed=received[0])
print(json.dumps(result))
