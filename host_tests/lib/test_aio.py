"""The asyncio client against the scripted broker: connecting, publishing, requests."""

import asyncio
import errno
import threading
import types

import pytest

from host_tests.lib.aio_clients import LIMIT_S, VIRTUAL, connected, make, plain, play, run, times_out, until
from tools.reference.kinds import PINGREQ, SUBSCRIBE, UNSUBSCRIBE
from tools.reference.wire import suback

pytestmark = VIRTUAL


def test_tcp_connect_times_out(unresponsive_port):
    client = make(unresponsive_port, timeout_ms=100)

    async def scene():
        await times_out(client.connect())
        await client.disconnect()

    run(scene())


@types.coroutine
def _the_rest(coroutine, awaited):
    try:
        while True:
            value = yield awaited
            awaited = coroutine.send(value)
    except StopIteration as e:
        return e.value


def _run_eagerly(loop, coroutine, **options):
    """As asyncio.eager_task_factory of Python 3.12: a task has begun before its maker knows it."""
    if not loop.is_running():
        return asyncio.Task(coroutine, loop=loop, **options)
    try:
        return asyncio.Task(_the_rest(coroutine, coroutine.send(None)), loop=loop, **options)
    except StopIteration as e:
        return asyncio.Task(asyncio.sleep(0, e.value), loop=loop, **options)


def test_a_loop_that_starts_its_tasks_eagerly(automatic):
    """The client's tasks do not begin before it can tell them from those that an interrupt left behind."""

    async def scene(client):
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", _run_eagerly))
        async with connected(client):
            await client.publish("t", b"1", 1)
            assert await client.drain(LIMIT_S * 1000)

    with automatic() as b:
        run(scene(make(b.port)))
    assert b.payloads() == [b"1"]


def test_subscribe_while_connecting(broker):
    """Subscribed after the reconnecting client has sent its SUBSCRIBEs: it is sent on this connection too."""
    client = make(broker.port)
    asked = threading.Event()

    async def scene():
        async with client:
            await client.subscribe("first")
            await until(asked.is_set)
            assert await client.subscribe("second", 1) == 1

    @plain
    def script(b):
        mid = b.expect(SUBSCRIBE, filters=[("first", 0)]).mid
        asked.set()
        b.sleep(1)
        with pytest.raises(BlockingIOError):
            b.connection.sock.recv(1)  # the SUBSCRIBE waits behind a packet
        b.send(suback(mid, 0))
        b.grant(1, filters=[("second", 1)])

    play(broker, script, scene)


def test_connection_lost_during_a_request(broker):
    """The caller gets the error, that of disconnect() too; the client makes the subscription on the next connection."""
    client = make(broker.port)

    async def scene():
        async with connected(client):
            for ask in (client.subscribe("s"), client.ping(), client.unsubscribe("x")):
                with pytest.raises(OSError) as told:
                    await ask
                assert told.value.args[0] == errno.ECONNRESET
                await client.connect()
            ask = asyncio.create_task(client.ping())
            await asyncio.sleep(0)
            await client.disconnect()
            with pytest.raises(OSError) as told:
                await ask
            assert told.value.args[0] == errno.ENOTCONN  # no error of an earlier connection

    def script(b):
        b.welcome()
        b.expect(SUBSCRIBE)
        b.cut()
        for kind in (PINGREQ, UNSUBSCRIBE):
            b.welcome(1)
            b.grant(0) if kind == PINGREQ else None
            b.expect(kind)
            b.cut()
        b.welcome(1)
        b.expect(PINGREQ)
        b.goodbye()

    play(broker, script, scene)
