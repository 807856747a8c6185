"""Promise: a broker that reads very slowly blocks a device for at most about two time-outs."""

import asyncio

import pytest

import inflight.aio
import inflight.transport
from inflight import AsyncClient, Journal, RamFlash
from inflight.transport import PACE, Transport

TIMEOUT_MS = 10_000


class Clock:
    """Only waits take time."""

    now = 0

    def __call__(self):
        return self.now


class Slow(Transport):
    """A connection whose peer reads `share` bytes in `pause` ms."""

    def __init__(self, clock, share, pause):
        self._timeout_ms = TIMEOUT_MS
        self._clock, self._share, self._pause = clock, share, pause
        self._free = 0
        self.took = 0

    def send(self, buf, at, n):
        n = min(n, self._free)
        self._free -= n
        self.took += n
        return n or None

    def _wait_writable(self, ms):
        self._clock.now += self._pause
        self._free = self._share


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (inflight.transport, inflight.aio):
        monkeypatch.setattr(module, "ticks_ms", clock)
    return clock


@pytest.mark.parametrize("share, pause", [(1, 100), (1, 9_000), (20, 1_000)])
def test_too_slow(clock, share, pause):
    """The write ends after one time-out with less than PACE bytes."""
    transport = Slow(clock, share, pause)
    with pytest.raises(OSError, match="takes too little"):
        transport.write(bytes(100_000), 0, 100_000)
    assert clock.now <= TIMEOUT_MS + pause and transport.took < PACE


def test_slow_but_fast_enough(clock):
    """A long message over a slow connection is sent completely."""
    transport = Slow(clock, 40, 1_000)
    transport.write(bytes(10_000), 0, 10_000)
    assert transport.took == 10_000 and clock.now > 20 * TIMEOUT_MS


def test_asyncio_too_slow(clock):
    """The same for the asyncio client, which writes in steps."""
    client = AsyncClient("127.0.0.1", "d", Journal(RamFlash()), timeout_ms=TIMEOUT_MS, keepalive=0)
    client._transport = transport = Slow(clock, 1, 1_000)
    client.session.connect(0, False, 0, None, None, None)

    async def turns():
        while not client._flush():
            transport._wait_writable(0)
            await client._wait_writable()

    class Waited:
        @staticmethod
        async def wait(stream, write):
            pass

        @staticmethod
        def wake():
            pass

    client._waiter, transport.file = Waited, None
    with pytest.raises(OSError, match="takes too little"):
        asyncio.run(turns())
    assert clock.now <= 2 * TIMEOUT_MS
