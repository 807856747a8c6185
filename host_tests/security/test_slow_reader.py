"""Promise: a broker that reads very slowly blocks a device for at most about two time-outs."""

import asyncio
import socket

import pytest

import inflight.client.aio
import inflight.cpython
import inflight.net.transport
from inflight import AsyncClient, Journal, RamFlash
from inflight.net.transport import PACE, Transport

TIMEOUT_MS = 10_000


class Clock:
    """Only waits take time: wait() is what the connection does meanwhile."""

    now = 0  # ms

    def monotonic_ns(self):
        return self.now * 1_000_000


class Slow(Transport):
    """A connection whose peer reads `share` bytes in `pause` ms, and sends nothing."""

    def __init__(self, clock, share, pause):
        self._clock, self._share, self._pause = clock, share, pause
        self._free = 0
        self.took = 0
        ours, self._theirs = socket.socketpair()
        super().__init__(ours, "peer", None, TIMEOUT_MS)
        clock.wait = self.pause

    def pause(self):
        self._clock.now += self._pause
        self._free = self._share

    def send(self, buf, at, n):
        n = min(n, self._free)
        self._free -= n
        self.took += n
        return n or None

    def close(self):
        super().close()
        self._theirs.close()


@pytest.fixture
def slow(clock):
    """slow(share, pause) is a connection."""
    made = []

    def make(share, pause):
        made.append(Slow(clock, share, pause))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()

    class Poller:
        def register(self, file, events):
            pass

        def ipoll(self, ms):
            clock.wait()
            return ()

    class Waiter:
        woken = False

        async def wait(self, file, write):
            clock.wait()

        def wake(self):
            pass

    monkeypatch.setattr(inflight.net.transport, "poller", Poller)
    monkeypatch.setattr(inflight.client.aio, "IOWaiter", Waiter)
    monkeypatch.setattr(inflight.cpython, "time", clock)
    return clock


@pytest.mark.parametrize("share, pause", [(1, 100), (1, 9_000), (20, 1_000)])
def test_too_slow(clock, slow, share, pause):
    """The write ends after one time-out with less than PACE bytes."""
    transport = slow(share, pause)
    with pytest.raises(OSError, match="takes too little"):
        transport.write(bytes(100_000), 0, 100_000)
    assert clock.now <= TIMEOUT_MS + pause and transport.took < PACE


def test_slow_but_fast_enough(clock, slow):
    """A long message over a slow connection is sent completely."""
    transport = slow(40, 1_000)
    transport.write(bytes(10_000), 0, 10_000)
    assert transport.took == 10_000 and clock.now > 20 * TIMEOUT_MS


def test_asyncio_too_slow(clock, slow, monkeypatch):
    """The same for the asyncio client, which writes in steps: here its CONNECT."""

    async def open_socket(*where):
        return None

    monkeypatch.setattr(inflight.client.aio, "open_socket", open_socket)
    monkeypatch.setattr(inflight.client.aio, "Transport", lambda *of: slow(1, 1_000))
    client = AsyncClient("127.0.0.1", "device", Journal(RamFlash()), timeout_ms=TIMEOUT_MS, reconnect=False)

    async def scene():
        with pytest.raises(OSError, match="takes too little"):
            await client.connect()
        await client.disconnect()

    asyncio.run(scene())
    assert clock.now <= 2 * TIMEOUT_MS
