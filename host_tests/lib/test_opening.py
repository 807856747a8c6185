"""How clients open a connection: the name of the broker, waiting without poll(), peers that are no MQTT brokers."""

import asyncio
import errno
import select
import socket
import ssl
import threading

import pytest

from host_tests.broker import PATIENCE_S, Automatic
from host_tests.clients import narrow, no_network
from host_tests.lib import aio_clients
from inflight import RamFlash

# --- the name ---


@pytest.mark.parametrize("client_kind", ["blocking", "asyncio"])
def test_a_name_that_nobody_knows(make):
    """The error tells which name it was: in a log of a device it is all that there is."""
    client = make(1883, host="broker.exmple", reconnect=False)
    told_of = pytest.raises(OSError, match="no address of broker.exmple: Name or service not known")
    with no_network(), told_of as told:
        client.connect()
    assert told.value.errno == socket.EAI_NONAME


@pytest.fixture
def resolver(monkeypatch):
    """Look-ups wait until `answer` is set; `asked` is set at the first one."""

    class Resolver:
        asked, answer = threading.Event(), threading.Event()

    real = socket.getaddrinfo

    def look_up(*what):
        Resolver.asked.set()
        assert Resolver.answer.wait(PATIENCE_S)
        return real(*what)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield Resolver
    Resolver.answer.set()


def test_a_slow_resolver_holds_up_no_other_task(resolver):
    with Automatic() as broker:
        client = aio_clients.make(broker.port)

        async def scene():
            async with client:
                connecting = asyncio.create_task(client.connect())
                await aio_clients.until(resolver.asked.is_set)
                assert await client.publish("t", b"meanwhile", 1)
                assert not connecting.done()
                resolver.answer.set()
                await connecting
                assert await client.drain(PATIENCE_S * 1000)

        aio_clients.run(scene())
    assert broker.payloads() == [b"meanwhile"]


def test_a_look_up_is_bounded(resolver):
    client = aio_clients.make(1, reconnect=False, timeout_ms=50)

    async def scene():
        with pytest.raises(OSError, match="no address of 127.0.0.1") as told:
            await client.connect()
        assert told.value.errno == errno.ETIMEDOUT
        resolver.answer.set()
        await client.disconnect()

    aio_clients.run(scene())


def test_a_look_up_can_be_given_up(resolver):
    """disconnect() does not wait for the resolver."""
    client = aio_clients.make(1)

    async def scene():
        connecting = asyncio.create_task(client.connect())
        await aio_clients.until(resolver.asked.is_set)
        await client.disconnect()
        with pytest.raises(OSError, match="disconnected"):
            await connecting
        assert not resolver.answer.is_set()
        resolver.answer.set()

    aio_clients.run(scene())
    assert client.errors == []


# --- without poll(), as CPython on Windows ---


@pytest.fixture
def without_poll(monkeypatch):
    for name in ("poll", "epoll", "POLLIN", "POLLOUT"):
        monkeypatch.delattr(select, name)


def test_flows_without_poll(without_poll, make, pump):
    got = []
    with Automatic() as broker:
        client = make(broker.port, RamFlash(8, 4096), keepalive=60)
        client.subscribe("t/#", 2, got.append)
        client.on_complete = got.append
        client.connect()
        narrow(client)
        sizes = [(0, 5), (1, 5), (2, 5), (0, 3_000_000), (1, 3000), (2, 3000)]  # the longest one waits for the socket
        for qos, size in sizes:
            client.publish("out", bytes(size), qos)
        assert client.drain(PATIENCE_S * 1000)
        assert client.ping() >= 0
        assert sorted((m.qos, len(m.payload)) for m in broker.arrived) == sorted(sizes)
        got.clear()
        for qos in range(3):
            broker.give("t/a", b"in", qos)
        pump(client, lambda: len(got) == 3)
        client.disconnect()


def test_a_time_out_without_poll(without_poll, make, unresponsive_port):
    with pytest.raises(OSError) as told:
        make(unresponsive_port, timeout_ms=50).connect()
    assert isinstance(told.value, TimeoutError) or told.value.errno == errno.ETIMEDOUT


# --- peers that are no MQTT brokers ---


@pytest.mark.parametrize("client_kind", ["blocking", "asyncio"])
def test_a_peer_that_does_not_speak_tls(broker, make):
    """On CPython, whose TLS tells it."""
    client = make(broker.port, tls=ssl.create_default_context())

    def script(b):
        b.accept()
        b.connection.sock.recv(1)
        b.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        b.connection.finish()

    with broker.play(script), pytest.raises(OSError, match="does not speak TLS.*port") as told:
        client.connect()
    assert told.value.errno == errno.ECONNABORTED
