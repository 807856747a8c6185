# The asyncio client: the same session, driven by one task that connects and reads, and one that
# watches the time. Nothing is awaited between two bytes of a packet's encoding or of the
# journal: cancelling a caller leaves both consistent, what is half written goes on.

import asyncio
import socket
import sys
from errno import ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EINPROGRESS, ENOTCONN, ETIMEDOUT

import inflight.packet as packet

from .base import DIAL, LEAVE, TURN, Base
from .journal import OutboxFull
from .link import Link, addresses
from .port import ticks_add, ticks_diff, ticks_ms

if sys.implementation.name == "micropython":

    def _readable(stream):
        yield asyncio.core._io_queue.queue_read(stream)

    def _writable(stream):
        yield asyncio.core._io_queue.queue_write(stream)

    _sleep_ms = asyncio.sleep_ms
else:
    from .cpython import aio_sleep_ms as _sleep_ms
    from .cpython import readable as _readable
    from .cpython import writable as _writable


# What a second connect() says when the first one failed; anything else means that it stands.
_FAILURES = (ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ETIMEDOUT)


async def _connect(sock, address, timeout):
    sock.setblocking(False)
    try:
        sock.connect(address)
    except OSError as e:
        if e.errno != EINPROGRESS:
            raise
        await asyncio.wait_for(_writable(sock), timeout / 1000)
        try:
            sock.connect(address)
        except OSError as e:
            if e.errno in _FAILURES:
                raise


async def _dial(host, port, timeout):
    # As link.dial(), without holding up the other tasks (but for the look-up of the name).
    for family, kind, proto, _, address in addresses(host, port):
        sock = socket.socket(family, kind, proto)
        try:
            await _connect(sock, address, timeout)
            return sock
        except asyncio.TimeoutError:
            sock.close()
            error = OSError(ETIMEDOUT)
        except OSError as e:
            sock.close()
            error = e
        except BaseException:
            sock.close()
            raise
    raise error


class AsyncClient(Base):
    """The asyncio client. Base tells its arguments; handlers are plain functions.

    async with AsyncClient(...) as client: keeps the connection up, and up again when it breaks.
    async for message in client: messages without a handler of their own; each is acknowledged
    when the next one is asked for, and nothing else is received meanwhile."""

    def __init__(self, host, client_id="", journal=None, **options):
        super().__init__(host, client_id, journal, **options)
        self._link = None
        self._at = self._left = 0  # what is still to be written of session.out
        self._tasks = ()
        self._reader = None
        self._up = False
        self._error = None  # what ended the last attempt or connection
        self._broken = None  # what shall end this one
        self._lock = asyncio.Lock()  # one request at a time
        self._changed = asyncio.Event()  # something came in, or the link came or went
        self._offered = asyncio.Event()  # a message waits for the iterator,
        self._settled = asyncio.Event()  # which is through with it
        self._holding = self._given = False

    # --- life ---

    async def __aenter__(self):
        self._start()
        return self

    async def __aexit__(self, *_):
        await self.disconnect()

    def _start(self):
        if not self._tasks:
            self._tasks = (asyncio.create_task(self._run()), asyncio.create_task(self._watch()))

    async def connect(self):
        """Connects now. Raises OSError (no link), ConnectRefused, ProtocolError; the client goes
        on trying until disconnect()."""
        self._due = ticks_ms()
        self._error = None
        self._start()
        while not self._up:
            if self._error:
                raise self._error
            await self._change(60_000)

    async def disconnect(self):
        """Ends the connection; the broker keeps the session, the journal what is in flight."""
        tasks = self._tasks
        self._tasks = ()
        for task in tasks:
            task.cancel()
        for task in tasks:
            try:
                await task
            except asyncio.CancelledError:
                pass
        if self.connected:
            try:
                if self._flush():
                    self._leave()
            except OSError:
                pass  # it is gone already
        self._close()

    def _close(self):
        if self._link:
            self._link.close()
            self._link = None
        self._left = 0
        self._up = False
        self.session.reset()
        self._changed.set()

    async def _run(self):
        while True:
            await self._pause()
            self._broken = None
            try:
                await self._open()
                self._reader = asyncio.create_task(self._read())
                await self._reader
            except asyncio.CancelledError:
                if self._reader:
                    self._reader.cancel()
                if not self._broken:
                    raise
            except (OSError, packet.ProtocolError) as e:
                self._broken = e
            self._reader = None
            self._error = self._broken
            self._failed(self._broken)

    async def _pause(self):
        left = ticks_diff(self._due, ticks_ms())
        while left > 0:
            await _sleep_ms(min(left, 50))
            left = ticks_diff(self._due, ticks_ms())

    async def _open(self):
        for step in self._opening():
            if step == TURN:
                left = ticks_diff(end, ticks_ms())
                try:
                    await asyncio.wait_for(self._turn(), max(left, 0) / 1000)
                except asyncio.TimeoutError:
                    raise OSError(ETIMEDOUT) from None
                continue
            if step == DIAL:
                sock = await _dial(self._host, self._port, self._timeout)
                self._link = Link(sock, self._host, self._tls, self._timeout)
            elif step == LEAVE:
                self._leave()
            end = ticks_add(ticks_ms(), self._timeout)
        self._up = True
        self._changed.set()

    async def _read(self):
        while True:
            await self._turn()
            self._changed.set()

    async def _watch(self):
        # The timers of the session, and what a publisher could not write at once.
        period = min(1000, self._keepalive * 100 or 1000)
        while True:
            await _sleep_ms(period)
            if self._up:
                self._try_flush()
                if self.session.overdue(ticks_ms(), self._timeout) and not self._holding:
                    self._abort(OSError(ETIMEDOUT))
                if self._journal:
                    self._journal.tidy()

    def _abort(self, error):
        # Ends the connection from outside the reader, but not under a message that is in use.
        if not self._broken:
            self._broken = error
            if self._reader and not self._holding:
                self._reader.cancel()

    # --- moving bytes ---

    def _flush(self):
        # Writes what the socket takes. Returns True if nothing is left, and the buffer is free.
        if not self._link:
            return True
        session = self.session
        while True:
            if not self._left:
                self._left = session.output(ticks_ms())
                self._at = session.out_at
                if not self._left:
                    return True
            done = self._link.stream.write(session.out, self._at, self._left)
            if not done:
                return False
            self._at += done
            self._left -= done

    def _try_flush(self):
        if self._broken:
            return True
        try:
            return self._flush()
        except OSError as e:
            self._abort(e)
            return True

    async def _turn(self):
        # Reads once and handles it; waits if there is nothing.
        session = self.session
        decoder = session.decoder
        stream = self._link.stream
        while not self._flush():
            await _writable(stream)
        n = self._link.read(decoder.view, decoder.space, 0)
        if not n:
            await _readable(stream)
            return
        decoder.fed(n)
        kind = session.receive(ticks_ms())
        while kind:
            if kind == packet.PUBLISH:
                await self._deliver()
            while not self._flush():
                await _writable(stream)
            if session.code:
                return
            kind = session.receive(ticks_ms())

    async def _deliver(self):
        if self.session.deliver:
            self._dispatch()
            if self._holding:
                self._offered.set()
                await self._settled.wait()
                self._settled.clear()
                self._holding = False
        self.session.taken()
        if self._broken:
            raise self._broken

    async def _change(self, ms):
        # Waits until something has changed, or `ms` have passed.
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), ms / 1000)
        except asyncio.TimeoutError:
            pass

    # --- what an application asks for ---

    def __aiter__(self):
        self._on_message = self._hold
        return self

    def _hold(self, message):
        self._holding = True

    async def __anext__(self):
        if self._given:
            self._given = False
            self._settled.set()
        await self._offered.wait()
        self._offered.clear()
        self._given = True
        return self._message

    async def publish(self, topic, payload=b"", qos=0, retain=False):
        """Publishes payload (str or bytes-like). QoS 1 and 2: durable when this returns, sent now
        or after the next reconnection. Returns the Message ID; 0 at QoS 0 or when dropped.
        Cancelled while it waits for room: the message was not taken.
        Raises ValueError; OutboxFull; OSError at QoS 0 without a connection."""
        self._check(topic, qos)
        name = self._name
        payload = self._payload(payload)
        end = ticks_add(ticks_ms(), self._timeout)
        while True:
            while not self._try_flush():
                await _sleep_ms(1)
            if not qos and (not self.connected or self._broken):
                raise OSError(ENOTCONN)
            try:
                mid = self.session.publish(name, payload, qos, retain)
                break
            except OutboxFull:
                if not self.connected or ticks_diff(end, ticks_ms()) <= 0:
                    raise
            await self._change(100)
        while not self._try_flush() and not qos:
            await _sleep_ms(1)
        if not qos and self._broken:
            raise self._broken
        return mid

    async def drain(self, ms):
        """Waits until the broker has completed every message of QoS 1 and 2. Returns True if it
        has, False if `ms` passed before."""
        end = ticks_add(ticks_ms(), ms)
        while self.pending:
            left = ticks_diff(end, ticks_ms())
            if left <= 0:
                return False
            await self._change(left)
        return True

    async def subscribe(self, filters, qos=0, handler=None, stream=False):
        """Subscribes to one filter, or to several: [(filter, qos), ...]. handler(message) gets
        what matches; with stream also payloads longer than the buffer, piece by piece.
        Returns the granted QoS (of several: a list), 128 where the broker refused; None while
        offline: the next connection subscribes. Raises ValueError, OSError. [MQTT-3.8]"""
        patterns, levels = self._add_handlers(filters, qos, handler, stream)
        if not self._up:
            return None
        async with self._lock:
            await self._ask(patterns, levels)
            granted = self._granted(patterns)
        return granted[0] if isinstance(filters, (str, bytes)) else granted

    async def unsubscribe(self, *filters):
        """Gives up filters; messages on their way may still come. Raises ValueError; OSError
        without a connection. [MQTT-3.10]"""
        patterns = self._drop_handlers(filters)
        async with self._lock:
            await self._ask(patterns, None)

    async def ping(self):
        """Sends PINGREQ. Returns the round trip in ms. Raises OSError. [MQTT-3.12]"""
        start = ticks_ms()
        async with self._lock:
            self._online()
            self.session.ping()
            await self._until(lambda: not self.session.pinging)
        return ticks_diff(ticks_ms(), start)

    def _online(self):
        if not self._up:
            raise OSError(ENOTCONN)

    async def _ask(self, patterns, levels):
        # The request of a caller that was cancelled may still be under way.
        await self._until(lambda: not self.session.asking)
        self.session.subscribe(patterns, levels)
        await self._until(lambda: not self.session.asking)

    async def _until(self, done):
        self._online()
        link = self._link
        self._try_flush()
        end = ticks_add(ticks_ms(), self._timeout)
        while not done():
            left = ticks_diff(end, ticks_ms())
            if left <= 0:
                self._abort(OSError(ETIMEDOUT))
                raise OSError(ETIMEDOUT)
            await self._change(left)
        if self._link is not link:
            raise OSError(ENOTCONN)
