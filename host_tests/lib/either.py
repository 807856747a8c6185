"""The asyncio client behind the calls of the blocking one: what both promise is tested once. The tests of a file with
BOTH_CLIENTS = True run against both."""

import asyncio
import functools
import inspect

import pytest

from host_tests.clients import Maker, cut_power
from host_tests.virtual import new_loop
from inflight import AsyncClient
from tools.clock import end_tasks

only_blocking = pytest.mark.parametrize("client_kind", ["blocking"])  # the asyncio client does this in another way


async def _interruptible(work):
    # asyncio keeps what is no Exception, like a power cut, in the task, where nobody looks. A SystemExit ends the loop.
    try:
        return await work
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise SystemExit(asyncio.current_task()) from error


class Driven:
    """An AsyncClient with the calls of a Client. It has an event loop of its own, and each call runs the loop until the
    call is complete: the client moves only within its calls. A call raises at once what is no Exception, whatever task
    raised it. Within a handler publish() returns a task. All other attributes are those of the client."""

    def __init__(self, *args, **options):
        client = AsyncClient(*args, **options)  # before there is a loop to be closed: it may raise
        loop = new_loop()
        loop.set_task_factory(lambda loop, work, **named: asyncio.Task(_interruptible(work), loop=loop, **named))
        vars(self).update(loop=loop, client=client, wanted=True)

    def __getattr__(self, name):
        value = getattr(self.client, name)
        return functools.partial(self.call, value) if inspect.iscoroutinefunction(value) else value

    def __setattr__(self, name, value):
        setattr(self.client, name, value)

    def __delattr__(self, name):
        delattr(self.client, name)

    def call(self, method, *args, **options):
        """Runs one method of the client, outside `async with`."""
        if self.loop.is_running():
            return self.loop.create_task(method(*args, **options))
        try:
            return self.loop.run_until_complete(method(*args, **options))
        except SystemExit as end:
            end.code.exception()  # of the task: asyncio need not tell of it
            raise end.__cause__ from None

    async def _keep_connected(self):
        if vars(self)["wanted"]:
            await self.client.__aenter__()

    def connect(self):
        vars(self)["wanted"] = True
        self.call(self.client.connect)

    def disconnect(self, will=False):
        vars(self)["wanted"] = False
        self.call(self.client.disconnect, will)

    def run_for(self, ms):
        async def run():
            await self._keep_connected()
            await asyncio.sleep(ms / 1000)

        self.call(run)

    def drain(self, ms=None, mid=0):
        async def drain():
            await self._keep_connected()
            return await self.client.drain(ms, mid)

        return self.call(drain)

    def cut_power(self):
        async def cut():
            cut_power(self.client)
            await end_tasks()

        if not self.loop.is_closed():
            self.loop.run_until_complete(cut())
            self.loop.close()


class AsyncMaker(Maker):
    """make(port, ...) returns a Driven client."""

    client_class = Driven

    def cut_power(self, client):
        client.cut_power()
