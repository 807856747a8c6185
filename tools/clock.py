"""Virtual time: an event loop that never waits. When no task is ready, its clock jumps to the next timer."""

import asyncio
import contextlib
import selectors
from unittest import mock

import inflight.cpython

_LOOK_S = 1e-6  # that a look at the clock takes: who never waits does not stop the time


class Clock:
    """Replaces the client's module `time`."""

    def __init__(self):
        self.now = 0.0  # seconds

    def time(self):
        return self.now

    def monotonic_ns(self):
        return round(self.time() * 1e9)

    def wait(self, look, seconds):
        """Returns what look() finds. If that is nothing, so many seconds pass."""
        found = look()
        if not found:
            self.now += seconds
        return found


class TurnsClock(Clock):
    """While the client waits, the `brokers` have their turns."""

    def __init__(self):
        self.now = 1000.0
        self.brokers = []

    def time(self):
        self.now += _LOOK_S
        return self.now

    def sleep(self, seconds):
        self.idle()
        self.now += max(seconds, 0.001)

    def idle(self):
        """The client waits: each broker does all that it can."""
        for broker in self.brokers:
            broker.idle()

    def wait(self, look, seconds):
        """Returns what look() finds, if that is nothing what it finds when the brokers had their turns. If that is
        nothing either, time passes: so many seconds, or until a script goes on."""
        found = look()
        if not found:
            self.idle()
            found = look()
        if not found:
            wakes = [broker.wakes_at for broker in self.brokers if broker.wakes_at > self.now]
            self.now = min(self.now + seconds, *wakes) if wakes else self.now + seconds
        return found

    def poller(self):
        """The poller class for the blocking client."""
        clock = self

        class Poller(inflight.cpython.poller):
            def ipoll(self, ms):
                look = super().ipoll
                return clock.wait(lambda: look(0), ms / 1000)

        return Poller


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock):
        super().__init__()
        self._clock = clock

    def select(self, timeout=None):
        look = super().select
        if timeout is not None and timeout <= 0:
            return look(0)
        found = self._clock.wait(lambda: look(0), timeout or 0)
        if timeout is None and not found:
            raise RuntimeError("deadlock: no task is ready, and no timer is set")
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Works only with sockets that deliver at once, or while the clock waits: all peers are in this process."""

    def __init__(self, clock):
        self.time = clock.time  # type: ignore[method-assign]
        super().__init__(_Selector(clock))

    def run_in_executor(self, executor, func, *args):  # type: ignore[override]
        # At once: nobody waits for a thread here.
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except OSError as error:
            done.set_exception(error)
        return done


async def end_tasks():
    """Cancels all other tasks of the running loop, and waits for their end."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@contextlib.contextmanager
def virtual_time():
    """Yields a VirtualLoop; clients use its time."""
    clock = Clock()
    loop = VirtualLoop(clock)
    with mock.patch("inflight.cpython.time", clock):
        try:
            yield loop
        finally:
            loop.run_until_complete(end_tasks())
            loop.close()
