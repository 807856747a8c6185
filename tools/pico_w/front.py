"""TLS in front of a broker. A broker's own gives up after a minute and a half, in which an emulated board does not get
through the handshake when the machine has other things to do as well."""

import asyncio
import contextlib
import threading

_HANDSHAKE_S = 900


class Front:
    """Takes TLS connections on `port` of loopback, and passes on what they say to the port `target`. `context` is the
    server's. Runs in a thread."""

    def __init__(self, target, context):
        self.port = None
        self._target = target
        self._context = context
        self._loop = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self):
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the TLS server does not come up")
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _run(self):
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        secure = {"ssl": self._context, "ssl_handshake_timeout": _HANDSHAKE_S}
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, **secure)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()

    async def _serve(self, reader, writer):
        upstream, downstream = await asyncio.open_connection("127.0.0.1", self._target)
        # Cancelled when the server comes to its end: that is no error.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(_pump(reader, downstream), _pump(upstream, writer))


async def _pump(source, sink):
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.close()
