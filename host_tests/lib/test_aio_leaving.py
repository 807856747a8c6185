"""disconnect() of the asyncio client in every state."""

import asyncio
import contextlib
import errno
import threading
from unittest.mock import AsyncMock

import pytest

from host_tests.broker import Gone
from host_tests.lib.aio_clients import VIRTUAL, Slow, half_written, long_first, make, narrow, plain, play, run, until
from inflight.net.transport import Transport
from tools.reference.kinds import PUBLISH, SUBSCRIBE
from tools.reference.wire import publish, suback

pytestmark = VIRTUAL


def watched_files():
    """How many files the loop watches, besides its own."""
    return len(asyncio.get_running_loop()._selector.get_map()) - 1


def test_other_tasks_run_while_there_is_no_network(monkeypatch):
    """Name resolution fails at once, again and again."""
    dial = AsyncMock(side_effect=OSError(errno.EHOSTUNREACH, "no network"))
    monkeypatch.setattr("inflight.client.aio.open_socket", dial)
    client = make(1)

    async def scene():
        with pytest.raises(OSError):
            await client.connect()
        await until(lambda: len(client.errors) > 20)
        await client.disconnect()

    run(scene())


@pytest.mark.parametrize(
    ("inside", "qos", "cut"), [(True, 2, False), (False, 2, False), (True, 2, True), (True, 1, True)]
)
def test_disconnect_while_a_consumer_holds_a_message(broker, inside, qos, cut):
    """[MQTT-4.3.3-2] The message was not acknowledged, so the broker sends it again, after disconnect() or a connection
    that broke. It stays readable; the consumer that had it does not get it twice at QoS 2."""
    client = make(broker.port)
    got = []

    async def scene():
        async with client:
            await client.connect()
            await client.subscribe("t", 2)
            messages = client.__aiter__()
            message = await messages.__anext__() if inside else None
            await until(lambda: client.counters()["received"] == 1)
            if cut:
                broker.cut()
                await until(lambda: client.counters()["connects"] == 2)
            else:
                await client.disconnect()
                await client.connect()
            if message:
                got.append((message.payload, message.dup))
            while got[-1:] != [(b"last", False)]:
                message = await messages.__anext__()
                got.append((message.payload, message.dup))

    def script(b):
        b.welcome()
        b.send(suback(b.expect(SUBSCRIBE).mid, 2), publish("t", b"x", qos, 1))
        b.expect_close() if cut else b.goodbye()
        b.welcome(1)
        b.deliver("t", b"x", qos, 1, dup=1)
        b.send(publish("t", b"last"))
        b.goodbye()

    play(broker, script, scene)
    assert got == [(b"x", False)] * inside + [(b"x", True)] * (qos == 1 or not inside) + [(b"last", False)]


def test_disconnect_with_a_packet_half_written(broker):
    """[MQTT-3.14.4-1] The rest is written before DISCONNECT, so that the broker does not publish the will."""
    narrow(broker)
    client = make(broker.port)
    payload = bytes(100_000)
    leaves = threading.Event()

    async def scene():
        await client.connect()
        narrow(client)
        writer = await half_written(client, payload)
        leaving = asyncio.create_task(client.disconnect())
        await asyncio.sleep(0)
        leaves.set()
        await leaving
        await writer

    @plain
    def script(b):
        b.until(leaves.is_set)
        b.expect(PUBLISH, payload=payload)

    play(broker, script, scene)


class Resets:
    """From operation `at` on, counted from arm(), the connection is reset."""

    def __init__(self, monkeypatch):
        self.armed = False
        self.done = self.at = 0
        for name in ("send", "receive"):
            monkeypatch.setattr(Transport, name, self._broken(getattr(Transport, name)))

    def _broken(self, operation):
        def call(*of):
            self.done += self.armed
            if self.done > self.at:
                raise ConnectionResetError(errno.ECONNRESET, "reset")
            return operation(*of)

        return call


@pytest.mark.parametrize("half_written", [False, True])
def test_a_reset_during_disconnect(clock, monkeypatch, half_written):
    """Whenever it comes, `async with` ends without an error, no task remains, and the client does not reconnect."""
    resets = Resets(monkeypatch)

    async def scene(client, b):
        writer = None
        async with client:
            await client.connect()
            narrow(client)
            await client.publish("kept", b"x", 1)
            if half_written:
                writer = await long_first(client, b)
            resets.armed = True
            b.reads = True
        assert not client.connected
        if writer:
            await asyncio.gather(writer, return_exceptions=True)

    while resets.done <= resets.at < 200:
        resets.armed, resets.done = False, 0
        with Slow(clock) as b:
            narrow(b)
            run(scene(make(b.port), b))
        assert len(b.connections) == 1
        resets.at += 1 if resets.at < 5 else 20
    assert resets.at > 1


def test_disconnect_when_all_tasks_were_cancelled(broker):
    """As in a program that is stopped; the client's own tasks are among them."""
    client = make(broker.port, timeout_ms=200)
    done = threading.Event()

    async def scene():
        with contextlib.suppress(asyncio.CancelledError):
            async with client:
                await client.connect()
                narrow(client)
                writer = await half_written(client)
                for task in asyncio.all_tasks() - {asyncio.current_task(), *outer}:
                    task.cancel()
                await asyncio.gather(writer)
        assert not client.connected
        done.set()

    async def main():
        outer.update(asyncio.all_tasks())
        await scene()

    outer = set()

    def script(b):
        b.welcome()
        b.until(done.is_set)

    narrow(broker)
    play(broker, script, main)


def test_no_socket_is_watched_after_disconnect(broker, unresponsive_port):
    """Neither for reading nor for writing, after TCP connecting, MQTT connecting, waiting or writing."""

    async def leave(client, when):
        waiting = asyncio.create_task(client.connect())
        await until(when)
        await client.disconnect()
        assert watched_files() == 0
        await asyncio.gather(waiting, return_exceptions=True)

    async def scene():
        dialling = make(unresponsive_port)
        await leave(dialling, watched_files)
        client = make(broker.port)
        await leave(client, asked.is_set)
        await leave(client, lambda: client.connected)
        await client.connect()
        narrow(client)
        writer = await half_written(client)
        reads.set()
        writer.cancel()
        leaving = asyncio.create_task(client.disconnect())
        await asyncio.sleep(0)
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
        assert watched_files() == 0

    asked, reads = threading.Event(), threading.Event()

    def script(b):
        b.called()
        asked.set()
        b.expect_close()
        b.welcome()
        b.goodbye()
        b.welcome()
        b.until(reads.is_set)
        with contextlib.suppress(Gone):
            while True:
                b.connection.fill()

    narrow(broker)
    play(broker, script, scene)
