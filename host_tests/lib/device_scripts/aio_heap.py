"""Measures the heap use of the asyncio client in steady state: `aio_heap.py PORT`. The broker answers each message on
"ask" with one whose QoS is the length of its payload. Prints lines of name, QoS, bytes."""

import asyncio
import gc
import sys

from inflight import AsyncClient, Journal, RamFlash

N = 40
PAYLOAD = bytes(64)


class Empty:
    """A coroutine as deep as publish() that only passes its arguments on, and a result back."""

    def nothing(self, topic, payload, qos, retain, properties):
        return 0

    async def publish(self, topic, payload=b"", qos=0, retain=False, properties=None):
        mid = self.nothing(topic, payload, qos, retain, properties)
        return mid


async def publishes(client, qos, pending=lambda: 0):
    """Bytes per publish(), and per message until the client has read its acknowledgement."""
    call = 0
    gc.collect()
    gc.disable()
    start = gc.mem_alloc()
    for _ in range(N):
        before = gc.mem_alloc()
        await client.publish("sensors/attic/temperature", PAYLOAD, qos)
        call += gc.mem_alloc() - before
        while pending():
            await asyncio.sleep_ms(0)
    whole = gc.mem_alloc() - start
    gc.enable()
    return call / N, whole / N


async def receives(client, qos, got):
    """Bytes per message that a handler receives, including the publish() that requests it."""
    ask = PAYLOAD[:qos]
    got[0] = 0
    gc.collect()
    gc.disable()
    start = gc.mem_alloc()
    for k in range(N):
        await client.publish("ask", ask, 0)
        while got[0] == k:
            await asyncio.sleep_ms(0)
    whole = gc.mem_alloc() - start
    gc.enable()
    return whole / N


async def main(port):
    client = AsyncClient("127.0.0.1", "heap", Journal(RamFlash(8, 4096)), port=port)
    got = bytearray(1)

    def count(message):
        got[0] += 1

    async with client:
        await client.subscribe("t", 2, count)
        await client.connect()
        for qos in (0, 1, 2):
            await publishes(client, qos, lambda: client.pending)  # warm-up
            empty = (await publishes(Empty(), qos))[0]
            call, whole = await publishes(client, qos, lambda: client.pending)
            await receives(client, qos, got)
            print("await", qos, empty)
            print("publish", qos, call)
            print("acknowledged", qos, whole - call)
            print("received", qos, await receives(client, qos, got) - empty)


asyncio.run(main(int(sys.argv[1])))
