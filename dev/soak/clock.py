"""A clock that jumps: an event loop whose time passes only when nobody has anything to do, and then at once."""

import asyncio
import contextlib
import selectors
import types

import inflight.cpython


class _Selector(selectors.DefaultSelector):
    """What is there is there; instead of waiting for more, the time passes."""

    now = 0.0

    def select(self, timeout=None):
        found = super().select(0)
        if not found:
            if timeout is None:
                raise RuntimeError("everybody waits for something that will never come")
            self.now += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Sockets that it waits for must not need time of their own: pairs within this process."""

    def __init__(self):
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self):
        return self._clock.now


async def _end_all():
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@contextlib.contextmanager
def virtual_time():
    """The time of clients is that of the loop that this gives."""
    loop = VirtualLoop()
    real = inflight.cpython.time
    inflight.cpython.time = types.SimpleNamespace(monotonic_ns=lambda: int(loop.time() * 1e9))
    try:
        yield loop
    finally:
        loop.run_until_complete(_end_all())
        inflight.cpython.time = real
        loop.close()
