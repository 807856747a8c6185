# How an asyncio task waits for a socket, and how it connects one.

import asyncio
import socket
import sys
from errno import ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EINPROGRESS, ETIMEDOUT

from ..compat import ticks_diff, ticks_ms

if sys.implementation.name == "micropython":
    sleep_ms, create_task = asyncio.sleep_ms, asyncio.create_task

    async def look_up(addresses, host, port, timeout_ms):
        # There are no threads: it holds up the other tasks.
        return addresses(host, port)

    class IOWaiter:
        """Where one task waits for a file, until another one wakes it. Cancelling would not do:
        it could not be told from the wish of somebody else."""

        woken = False  # the last wait ended by wake()
        _task = None

        def wait(self, file, write):
            self.woken = False
            self._task = asyncio.current_task()
            queue = asyncio.core._io_queue
            yield queue.queue_write(file) if write else queue.queue_read(file)

        def wake(self):
            core = asyncio.core
            if self._task and self._task.data is core._io_queue:
                self.woken = True
                core._io_queue.remove(self._task)
                core._task_queue.push(self._task)

else:
    from ..cpython import IOWaiter, look_up
    from ..cpython import aio_sleep_ms as sleep_ms

    create_task = asyncio.Task  # a task factory of the loop's might run it before anybody could note it

# What a second connect() says when the first one failed; anything else means that it stands.
_FAILURES = (ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ETIMEDOUT)


async def open_socket(waiter, host, port, timeout_ms):
    """As transport.open_socket(), without holding up the other tasks."""
    from .transport import addresses

    for family, kind, proto, _, address in await look_up(addresses, host, port, timeout_ms):
        sock = None
        try:
            sock = socket.socket(family, kind, proto)
            await _connect(waiter, sock, address, timeout_ms)
            return sock
        except BaseException as e:
            if sock:
                sock.close()
            if not isinstance(e, OSError):
                raise
            error = e
    raise error


async def _connect(waiter, sock, address, timeout_ms):
    start = ticks_ms()
    sock.setblocking(False)
    try:
        sock.connect(address)
        return
    except OSError as e:
        if e.errno != EINPROGRESS:
            raise
    waiter.woken = True
    while waiter.woken:
        if ticks_diff(ticks_ms(), start) >= timeout_ms:
            raise OSError(ETIMEDOUT, "timed out while connecting: check host, port and firewall")
        await waiter.wait(sock, True)
    try:
        sock.connect(address)
    except OSError as e:
        if e.errno in _FAILURES:
            raise
