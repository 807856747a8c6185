"""What the tests of the asyncio client share: clients, scenes that they play with the scripted broker."""

import asyncio
import errno
import functools
import gc
import socket
import threading

import pytest

from host_tests.broker import PATIENCE_S, Automatic
from inflight import AsyncClient, Journal, RamFlash

# A test that leaves a socket or a task behind fails.
STRICT = [
    pytest.mark.filterwarnings("error::ResourceWarning"),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]
LIMIT_S = 10
LONG = bytes(range(256)) * 400  # in many pieces, through a narrow socket


def run(main, limit=LIMIT_S):
    """Runs the coroutine in a loop of its own; nothing may be left behind: no task, no unheard exception."""
    problems = []

    async def watched():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        result = await asyncio.wait_for(main, limit)
        for _ in range(3):  # cancelled tasks come to their end
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    result = asyncio.run(watched(), debug=True)
    gc.collect()
    assert not problems
    return result


def make(port, device=None, client_id="dev", **options):
    """An AsyncClient with a RAM journal; `errors` lists what on_error was told. device False: no journal."""
    device = RamFlash() if device is None else device
    errors = []
    settings = {"timeout_ms": 3000, "backoff_ms": (0, 0), "keepalive": 0, "on_error": errors.append, **options}
    client = AsyncClient("127.0.0.1", client_id, Journal(device) if device else None, port=port, **settings)
    client.errors = errors
    client.device = device
    return client


def play(broker, script, scene):
    """The broker plays script(broker) in its thread while scene() runs in the event loop."""
    with broker.play(script):
        return run(scene())


async def times_out(work):
    """It ends with the time-out."""
    with pytest.raises(OSError) as told:
        await work
    assert told.value.args[0] == errno.ETIMEDOUT


async def until(condition):
    """Lets the loop run until the condition holds; run() bounds it."""
    while not condition():
        await asyncio.sleep(0.001)


def plain(script):
    """A script between a welcome and a goodbye."""

    @functools.wraps(script)
    def whole(b):
        b.welcome()
        script(b)
        b.goodbye()

    return whole


def subscribed(script, *filters):
    """A script between a welcome with its SUBSCRIBE for "t" and a goodbye."""

    @functools.wraps(script)
    def whole(b):
        b.welcome()
        b.grant(2)
        script(b)
        b.goodbye()

    return whole


def narrow(end):
    """A connected client, or a broker before anybody comes, whose socket takes little at once."""
    if isinstance(end, AsyncClient):
        end._transport.stream._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    else:
        end._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


class Slow(Automatic):
    """Reads nothing while `reads` is clear."""

    def __init__(self):
        self.reads = threading.Event()
        self.reads.set()
        super().__init__()

    def _read(self, connection):
        assert self.reads.wait(PATIENCE_S)
        super()._read(connection)


async def long_first(client, b):
    """Another task's long packet is half written: whoever comes now has to wait."""
    b.reads.clear()
    task = asyncio.create_task(client.publish("long", LONG))
    await asyncio.sleep(0)
    return task
