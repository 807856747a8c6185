"""The asyncio client behind the calls of the blocking one: what both promise is tested once. The tests of a file with
BOTH_CLIENTS = True run against both."""

import asyncio
import functools
import inspect

import pytest

from host_tests.clients import Maker, cut_power
from host_tests.virtual import new_loop
from inflight import AsyncClient

only_blocking = pytest.mark.parametrize("client_kind", ["blocking"])  # the asyncio client does this in another way


class Driven:
    """An AsyncClient with the calls of a Client. Each runs the loop until it is complete, and as long the client moves.
    Within a handler publish() returns a task. All other attributes are those of the client."""

    def __init__(self, loop, *args, **options):
        vars(self).update(loop=loop, client=AsyncClient(*args, **options), wanted=True)

    def __getattr__(self, name):
        value = getattr(self.client, name)
        return functools.partial(self._call, value) if inspect.iscoroutinefunction(value) else value

    def __setattr__(self, name, value):
        setattr(self.client, name, value)

    def _call(self, method, *args, **options):
        if self.loop.is_running():
            return self.loop.create_task(method(*args, **options))
        try:
            return self.loop.run_until_complete(method(*args, **options))
        finally:
            self.loop.run_until_complete(asyncio.sleep(0))  # the client's task notices how it ended
            for task in self.client._tasks:
                if task.done() and not task.cancelled():
                    task.result()  # a power cut within a handler

    async def _keep_connected(self):
        if vars(self)["wanted"]:
            await self.client.__aenter__()

    def connect(self):
        vars(self)["wanted"] = True
        self._call(self.client.connect)

    def disconnect(self, will=False):
        vars(self)["wanted"] = False
        self._call(self.client.disconnect, will)

    def run_for(self, ms):
        async def run():
            await self._keep_connected()
            await asyncio.sleep(ms / 1000)

        self._call(run)

    def drain(self, ms, mid=0):
        async def drain():
            await self._keep_connected()
            return await self.client.drain(ms, mid)

        return self._call(drain)

    def cut_power(self):
        async def cut():
            self.client._stop()
            cut_power(self.client)
            await asyncio.sleep(0)

        self.loop.run_until_complete(cut())


class AsyncMaker(Maker):
    """make(port, ...) returns a Driven client."""

    loop = None  # of all its clients

    def client_class(self, *args, **options):
        if not self.loop:
            self.loop = new_loop()
        return Driven(self.loop, *args, **options)

    def cut_power(self, client):
        client.cut_power()

    def close(self):
        super().close()
        if self.loop:
            self.loop.close()
