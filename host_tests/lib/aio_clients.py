"""Shared by the tests of the asyncio client: clients, and scenes played with the scripted broker."""

import asyncio
import contextlib
import errno
import functools
import gc
import socket

import pytest

from host_tests import clients
from host_tests.broker import PATIENCE_S
from host_tests.virtual import VirtualAutomatic, new_loop
from inflight import AsyncClient, Journal, RamFlash
from inflight.net.transport import Transport
from tools.clock import end_tasks

# A test fails if it leaves a socket or a task behind.
STRICT = [
    pytest.mark.filterwarnings("error::ResourceWarning"),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]
VIRTUAL = [*STRICT, pytest.mark.usefixtures("clock")]
LIMIT_S = PATIENCE_S
LONG = bytes(range(256)) * 400  # needs many writes through a narrow socket


def run(main):
    """Runs the coroutine in a new loop, on virtual time if clients are; fails if a task or an unhandled exception
    remains."""
    problems = []
    loop = new_loop()

    async def watched():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        result = await asyncio.wait_for(main, LIMIT_S * 2)
        for _ in range(3):  # lets cancelled tasks finish
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    loop.set_debug(True)
    try:
        result = loop.run_until_complete(watched())
    finally:
        loop.run_until_complete(end_tasks())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    gc.collect()
    assert not problems
    return result


def make(port, device=None, client_id="dev", host="127.0.0.1", **options):
    """An AsyncClient with a RAM journal; `errors` lists the arguments of on_error. device False: no journal."""
    device = RamFlash() if device is None else device
    errors = []
    settings = {"timeout_ms": LIMIT_S * 1000, "backoff_ms": (0, 0), "keepalive": 0, "on_error": errors.append}
    settings |= options
    client = AsyncClient(host, client_id, Journal(device) if device else None, port=port, **settings)
    vars(client).update(errors=errors, device=device)
    return client


def play(broker, script, scene):
    """Plays script(broker) while scene() runs in an event loop."""
    with broker.play(script):
        return run(scene())


async def times_out(work):
    """It must end with a time-out."""
    with pytest.raises(OSError) as told:
        await work
    assert told.value.args[0] == errno.ETIMEDOUT


@contextlib.asynccontextmanager
async def connected(client, *subscriptions):
    """Within it the client is connected, with these subscriptions, which are arguments of subscribe()."""
    async with client:
        for arguments in subscriptions:
            await client.subscribe(*arguments)
        await client.connect()
        yield


async def until(condition):
    """Runs the loop until the condition holds; run() limits the time."""
    while not condition():
        await asyncio.sleep(0.001)


def plain(script):
    """A script that begins with CONNECT, CONNACK and ends with DISCONNECT."""

    @functools.wraps(script)
    def whole(b):
        b.welcome()
        script(b)
        b.goodbye()

    return whole


def subscribed(script):
    """A script that begins with CONNECT, CONNACK and the SUBSCRIBE to "t", and ends with DISCONNECT."""

    @plain
    @functools.wraps(script)
    def whole(b):
        b.grant(2)
        script(b)

    return whole


def narrow(end):
    """Gives the sockets of a connected client, or of a broker's new connections, small buffers."""
    if isinstance(end, AsyncClient):
        clients.narrow(end)
    else:
        end._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


class Slow(VirtualAutomatic):
    """Does nothing while `reads` is False."""

    reads = True

    def idle(self):
        if self.reads:
            super().idle()


def sends(monkeypatch, most):
    """The list of what is tried from now on; whoever tries as often as `most` waits busily."""
    tries, send = [], Transport.send

    def counted(*of):
        tries.append(1)
        assert len(tries) < most, "busy waiting"
        return send(*of)

    monkeypatch.setattr(Transport, "send", counted)
    return tries


async def half_written(client, payload=LONG):
    """Publishes more than the narrow socket of the client takes. Returns the task, which waits for the broker."""
    task = asyncio.create_task(client.publish("long", payload))
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def long_first(client, b):
    """Another task's long packet is half written, so other writers have to wait."""
    b.reads = False
    return await half_written(client)
