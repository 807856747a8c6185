"""Promise: a broker that reads very slowly blocks a device for at most about two time-outs."""

import asyncio
import socket
from functools import partial

import pytest

import inflight.client.aio
import inflight.client.client
import inflight.cpython
import inflight.net.transport
from host_tests.processes import started
from inflight import AsyncClient, Client
from inflight.net.transport import Transport
from tools.reference.wire import connack

TIMEOUT_MS = 10_000
PACE = 256  # bytes in as long


class Clock:
    """Only waits take time: wait() is what the connection does meanwhile."""

    now = 0  # ms

    def monotonic_ns(self):
        return self.now * 1_000_000


class Slow(Transport):
    """A connection whose peer reads `share` bytes in `pause` ms; `sends`: bytes of its own."""

    def __init__(self, clock, share, pause, sends=b""):
        self._clock, self.share, self._pause = clock, share, pause
        self._free = 0
        self.took = 0
        ours, self._theirs = socket.socketpair()
        self._theirs.sendall(sends)
        super().__init__(ours, "peer", None)
        clock.wait = self.pause

    def pause(self):
        self._clock.now += self._pause
        self._free = self.share

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
    """slow(share, pause, sends) is a connection."""
    with started(Slow, Slow.close) as start:
        yield partial(start, clock)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()

    class Poller:
        def register(self, file, events):
            pass

        modify = register

        def ipoll(self, ms):
            if ms:
                clock.wait()
            return ()

    class Waiter:
        woken = False

        async def wait(self, file, write):
            clock.wait()
            await asyncio.sleep(0)

        def wake(self):
            pass

    monkeypatch.setattr(inflight.net.transport, "poller", Poller)
    monkeypatch.setattr(inflight.client.aio, "IOWaiter", Waiter)
    monkeypatch.setattr(inflight.cpython, "time", clock)
    return clock


@pytest.fixture
def connected(clock, slow, monkeypatch):
    """connected(share, pause) is a blocking client, and its connection. That was a quick one before: `clock` and `took`
    count from now on."""

    def make(share, pause):
        transport = slow(1000, pause, connack(0))
        monkeypatch.setattr(inflight.net.transport, "open_socket", lambda *where: None)
        monkeypatch.setattr(inflight.client.client, "Transport", lambda *of: transport)
        client = Client("127.0.0.1", "device", timeout_ms=TIMEOUT_MS, keepalive=0, on_error=lambda error: None)
        client.connect()
        transport.share = share
        clock.now = transport.took = transport._free = 0
        return client, transport

    with started(make, lambda made: made[0].disconnect()) as start:
        yield start


@pytest.mark.parametrize("share, pause", [(1, 100), (1, 9_000), (20, 1_000)])
def test_too_slow(clock, connected, share, pause):
    """The write ends after one time-out with less than PACE bytes."""
    client, transport = connected(share, pause)
    with pytest.raises(OSError, match="stopped reading"):
        client.publish("t", bytes(400))
    assert clock.now <= TIMEOUT_MS + pause and transport.took < PACE


def test_slow_but_fast_enough(clock, connected):
    """A long message over a slow connection is sent completely."""
    client, transport = connected(40, 1_000)
    client.publish("t", bytes(10_000))
    assert transport.took > 10_000 and clock.now > 20 * TIMEOUT_MS


@pytest.fixture
def connected_aio(clock, slow, monkeypatch):
    """Runs connect(), disconnect() of an asyncio client whose connection is slow(share, 1_000, sends)."""

    def run(share, sends=b"", **options):
        async def open_socket(*where):
            return None

        async def scene():
            try:
                await client.connect()
            finally:
                await client.disconnect()

        monkeypatch.setattr(inflight.client.aio, "open_socket", open_socket)
        monkeypatch.setattr(inflight.client.aio, "Transport", lambda *of: slow(share, 1_000, sends))
        client = AsyncClient("127.0.0.1", "device", timeout_ms=TIMEOUT_MS, reconnect=False, **options)
        asyncio.run(scene())

    return run


def test_asyncio_too_slow(clock, connected_aio):
    """The same for the asyncio client, which writes in steps: here its CONNECT."""
    with pytest.raises(OSError, match="stopped reading"):
        connected_aio(1)
    assert clock.now <= 2 * TIMEOUT_MS


def test_asyncio_slow_but_fast_enough(clock, connected_aio):
    """A CONNECT takes its time as any other packet does: its answer is waited for when it has left."""
    connected_aio(40, connack(0), will=("w", bytes(1_500), 0, False), buffer=bytearray(4096), keepalive=0)
    assert clock.now > 3 * TIMEOUT_MS
