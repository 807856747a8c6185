"""An event loop on a virtual clock: when no task is ready, the clock jumps to the next timer."""

import asyncio
import contextlib
import selectors
import types

import inflight.cpython


class _Selector(selectors.DefaultSelector):
    """Never waits; advances the clock by the time-out instead."""

    now = 0.0

    def select(self, timeout=None):
        found = super().select(0)
        if not found:
            if timeout is None:
                raise RuntimeError("deadlock: no task is ready, and no timer is set")
            self.now += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Works only with sockets that deliver at once: socket pairs within this process."""

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
    """Yields a VirtualLoop; clients use its time."""
    loop = VirtualLoop()
    real = inflight.cpython.time
    inflight.cpython.time = types.SimpleNamespace(monotonic_ns=lambda: int(loop.time() * 1e9))
    try:
        yield loop
    finally:
        loop.run_until_complete(_end_all())
        inflight.cpython.time = real
        loop.close()
