"""The network between sensors and broker: a TCP proxy, and one that can be cut and counts repeated PUBLISH packets."""

import asyncio
import contextlib
import threading
from collections import Counter

from tools.reference.kinds import PUBLISH
from tools.reference.wire import spans


class _Frames:
    """Counts the PUBLISH packets with DUP of a byte stream, by QoS."""

    def __init__(self, repeated):
        self._repeated = repeated
        self._data = bytearray()

    def feed(self, data):
        self._data += data
        end = 0
        for start, _, stop in spans(self._data):
            first, end = self._data[start], stop
            if first >> 4 == PUBLISH:
                self._repeated[first >> 1 & 3] += first >> 3 & 1
        del self._data[:end]


class Relay:
    """Listens on `port` of loopback and forwards to the port `target`, in a thread. `listening`: further arguments of
    asyncio.start_server()."""

    def __init__(self, target, **listening):
        self._target = target
        self._listening = listening
        self._writers = set()
        self.port = None
        self._loop = self._over = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._ready = threading.Event()

    def __enter__(self):
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the proxy does not start")
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _run(self):
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, **self._listening)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()

    async def _serve(self, reader, writer):
        try:
            upstream, downstream = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, downstream}
        # Cancelled when the proxy ends: not an error.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(self._pump(reader, downstream, self._watcher()), self._pump(upstream, writer))
        self._writers -= {writer, downstream}

    def _watcher(self):
        """A function that receives a copy of one sensor's data, or None."""
        return None

    async def _pump(self, reader, writer, watch=None):
        try:
            while data := await reader.read(65536):
                if watch:
                    watch(data)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


class Network(Relay):
    """A relay that can be cut. Any thread may call cut() and join(). `repeated` counts the PUBLISH packets with DUP of
    all sensors, by QoS."""

    def __init__(self, target):
        super().__init__(target)
        self._down = False
        self.cuts = 0
        self.repeated = Counter()

    def cut(self):
        """Breaks every connection at once; new ones fail until join()."""
        self.cuts += 1
        self._loop.call_soon_threadsafe(self._break)

    def join(self):
        self._loop.call_soon_threadsafe(setattr, self, "_down", False)  # in the loop's queue behind a pending cut()

    def _break(self):
        self._down = True
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader, writer):
        if self._down:
            writer.transport.abort()
        else:
            await super()._serve(reader, writer)

    def _watcher(self):
        return _Frames(self.repeated).feed
