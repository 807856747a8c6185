"""`websocket.py PORT CA`: both clients through the WebSocket listener of a broker that delivers what it gets; CA "-":
without TLS. Prints a line for each client."""

import asyncio
import sys

from inflight import AsyncClient, Client, Journal, RamFlash
from trusting import trusting

port, ca = sys.argv[1:]
LONG = bytes(range(250)) * 20
EXPECTED = sorted([b"0", b"1", b"2", LONG])
context = None if ca == "-" else trusting(ca)


class Got:
    """Collects payloads; a long one comes in pieces."""

    def __init__(self):
        self.whole = []
        self._part = b""

    def __call__(self, message):
        self._part += message.payload
        if len(self._part) == message.size:
            self.whole.append(self._part)
            self._part = b""

    @property
    def done(self):
        return sorted(self.whole) == EXPECTED


def make(client):
    return client(
        "localhost",
        "dev-%s" % client.__name__,
        Journal(RamFlash(8, 1024)),
        port=int(port),
        tls=context,
        path="/mqtt",
        timeout_ms=20_000,
    )


def blocking():
    client = make(Client)
    got = Got()
    client.subscribe("t", 2, got, stream=True)
    client.connect()
    for qos in (0, 1, 2):
        client.publish("t", b"%d" % qos, qos)
    client.publish("t", LONG)
    assert client.drain(20_000)
    while not got.done:
        client.run_for(20)
    assert client.ping() >= 0
    client.disconnect()
    print("blocking: ok")


async def by_asyncio():
    client = make(AsyncClient)
    got = Got()
    await client.subscribe("t", 2, got, stream=True)
    async with client:
        await client.connect()
        for qos in (0, 1, 2):
            await client.publish("t", b"%d" % qos, qos)
        await client.publish("t", LONG)
        assert await client.drain(20_000)
        while not got.done:
            await asyncio.sleep(0.02)
        assert await client.ping() >= 0
    print("asyncio: ok")


blocking()
asyncio.run(by_asyncio())
