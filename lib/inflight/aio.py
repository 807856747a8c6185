# The asyncio client: the same session in one task, which connects, reads, and waits when the
# socket takes no more; another one wakes it for the timers. Everybody may write, but nothing is
# awaited within a step of the session: a caller that is cancelled leaves packets and journal
# whole, and what is half written goes on.

import asyncio
import socket
import sys
from errno import ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EINPROGRESS, ENOTCONN, ETIMEDOUT

import inflight.packet as packet

from .base import DIAL, LEAVE, TURN, Base
from .journal import OutboxFull
from .link import Link, addresses
from .port import const, ticks_add, ticks_diff, ticks_ms

if sys.implementation.name == "micropython":
    _sleep_ms = asyncio.sleep_ms

    class Gate:
        """Where one task waits for a file, until another one wakes it. Cancelling would not do:
        it could not be told from the wish of somebody else."""

        woken = False  # the last wait ended by wake()
        _task = None

        def readable(self, file):
            self.woken = False
            self._task = asyncio.current_task()
            yield asyncio.core._io_queue.queue_read(file)

        def writable(self, file):
            self.woken = False
            self._task = asyncio.current_task()
            yield asyncio.core._io_queue.queue_write(file)

        def wake(self):
            core = asyncio.core
            if self._task and self._task.data is core._io_queue:
                self.woken = True
                core._io_queue.remove(self._task)
                core._task_queue.push(self._task)
else:
    from .cpython import Gate
    from .cpython import aio_sleep_ms as _sleep_ms


# What a second connect() says when the first one failed; anything else means that it stands.
_FAILURES = (ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ETIMEDOUT)

_OFFERED = const(1)  # a message waits for the iterator,
_IN_USE = const(2)  # which has handed it out


class AsyncClient(Base):
    """The asyncio client. Base tells its arguments; handlers are plain functions.

    async with AsyncClient(...) as client: keeps the connection up, and up again when it breaks.
    async for message in client: messages without a handler of their own; each is acknowledged
    when the next one is asked for, and nothing else is received meanwhile. One loop at a time."""

    def __init__(self, host, client_id="", journal=None, **options):
        super().__init__(host, client_id, journal, **options)
        self._link = None
        self._at = self._left = 0  # what is still to be written of session.out
        self._wrote = self._began = 0  # when the socket last took something; when the step of connecting began
        self._tick = min(self._slice, self._timeout // 4 or 1)
        self._tasks = ()
        self._gate = Gate()
        self._up = False
        self._error = None  # what ended the last attempt or connection
        self._broken = None  # what shall end this one
        self._lock = asyncio.Lock()  # one request at a time
        self._changed = asyncio.Event()  # something was read or written, or time has passed
        self._held = 0  # the message for the iterator: _OFFERED, _IN_USE
        self._offered = asyncio.Event()
        self._settled = asyncio.Event()  # held or not, look again
        self._consumer = None  # the task that has it

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
        """Connects now. Raises OSError (no link, or disconnect() came first), ConnectRefused,
        ProtocolError, ValueError (a buffer too small); the client goes on trying until
        disconnect()."""
        self._due = ticks_ms()
        self._error = None
        self._start()
        tasks = self._tasks
        while not self._up and not (self._held and self.connected):
            if self._error or self._tasks is not tasks:
                raise self._error or OSError(ECONNABORTED)
            await self._change()

    async def disconnect(self):
        """Ends the connection, after the packet that is half written; the broker keeps the
        session, the journal what is in flight. A message that the iterator has handed out comes
        again, marked as `redelivered`."""
        end = ticks_add(ticks_ms(), self._timeout)
        try:
            while self._left and not self._broken and ticks_diff(end, ticks_ms()) > 0:
                await self._change()
        finally:
            self._stop()

    def _stop(self):
        try:
            if self.connected and not self._broken and self._flush():
                self._leave()
        except OSError:
            pass  # it is gone already
        for task in self._tasks:
            task.cancel()
        self._tasks = ()
        self._close()

    def _close(self):
        if self._link:
            self._gate.wake()  # nobody waits for a closed socket
            self._link.close()
            self._link = None
        self._left = self._held = 0
        self._up = False
        self.session.reset()
        self._changed.set()

    async def _run(self):
        while True:
            while not self._is_due(ticks_ms()):
                await _sleep_ms(20)
            self._broken = None
            try:
                await self._open()
                while True:
                    await self._turn()
            except Exception as e:  # whatever it is: without this task nothing moves any more
                self._error = e
            self._failed(self._error)

    async def _watch(self):
        while True:
            await _sleep_ms(self._tick)
            self._changed.set()
            self._wake()

    def _wake(self):
        self._settled.set()
        self._gate.wake()

    async def _open(self):
        for step in self._opening():
            if step == TURN:
                if ticks_diff(ticks_ms(), self._began) >= self._timeout:
                    raise OSError(ETIMEDOUT)
                await self._turn()
                continue
            if step == DIAL:
                self._link = await self._dial()
            elif step == LEAVE:
                while not self._flush():
                    await self._room()
                self._leave()
            self._began = self._wrote = ticks_ms()
        self._up = True
        self._changed.set()

    async def _dial(self):
        # As link.dial(), without holding up the other tasks (but for the look-up of the name).
        for family, kind, proto, _, address in addresses(self._host, self._port):
            sock = socket.socket(family, kind, proto)
            try:
                await self._reach(sock, address)
                return Link(sock, self._host, self._tls, self._timeout)
            except OSError as e:
                sock.close()
                error = e
            except BaseException:
                sock.close()
                raise
        raise error

    async def _reach(self, sock, address):
        start = ticks_ms()
        sock.setblocking(False)
        try:
            sock.connect(address)
            return
        except OSError as e:
            if e.errno != EINPROGRESS:
                raise
        await self._gate.writable(sock)
        while self._gate.woken:
            if ticks_diff(ticks_ms(), start) >= self._timeout:
                raise OSError(ETIMEDOUT)
            await self._gate.writable(sock)
        try:
            sock.connect(address)
        except OSError as e:
            if e.errno in _FAILURES:
                raise

    # --- moving bytes ---

    def _flush(self):
        # Writes what the socket takes. Returns True if nothing is left, and the buffer is free.
        if self._broken:
            raise self._broken
        if not self._link:
            return True
        session = self.session
        while True:
            if not self._left:
                self._left = session.output(ticks_ms())
                self._at = session.out_at
                if not self._left:
                    return True
            done = self._link.send(session.out, self._at, self._left)
            if not done:
                return False
            self._wrote = ticks_ms()
            self._at += done
            self._left -= done

    def _try_flush(self):
        # As _flush(), from outside the client's task, which waits for the socket if need be.
        if self._broken:
            return True
        try:
            done = self._flush()
        except Exception as e:
            self._abort(e)
            return True
        if not done:
            self._wake()
        return done

    def _abort(self, error):
        # Ends the connection, but not under a message that is in use.
        if not self._broken:
            self._broken = error
            self._wake()

    async def _room(self):
        # Waits until the socket takes more, a tick at most.
        if ticks_diff(ticks_ms(), self._wrote) >= self._timeout:
            self._abort(OSError(ETIMEDOUT))
        else:
            await self._gate.writable(self._link.stream)

    async def _turn(self):
        # Writes what is due, reads once and handles it. Waits for bytes, a tick at most.
        session = self.session
        decoder = session.decoder
        while not self._flush():
            await self._room()
        self._changed.set()
        n = self._link.receive(decoder.view, decoder.space)
        if not n:
            if session.overdue(ticks_ms(), self._timeout):
                raise OSError(ETIMEDOUT)
            await self._gate.readable(self._link.stream)
            if self._gate.woken and self._journal:
                self._journal.tidy()  # one erase at most
            return
        decoder.fed(n)
        kind = session.receive(ticks_ms())
        while kind:
            if kind == packet.PUBLISH:
                if session.deliver:
                    self._dispatch()
                    if self._held:
                        await self._hold()
                session.taken()
            while not self._flush():
                await self._room()
            if session.code:
                return
            kind = session.receive(ticks_ms())
        await _sleep_ms(0)  # a broker that never pauses leaves time to the others

    async def _hold(self):
        # The iterator has a message: until it asks for the next one all goes on but reading.
        self._offered.set()
        while self._held:
            if self._held == _OFFERED and self._broken:
                raise self._broken
            if self._keepalive and self.session.overdue(ticks_ms(), self._keepalive * 750):
                self.session.ping()  # the answer to the last one is still to be read
            if self._try_flush():
                self._changed.set()
                self._settled.clear()
                await self._settled.wait()
            else:
                await self._room()
        self._began = ticks_ms()  # the time of the application is not the broker's

    async def _change(self, ms=1 << 20):
        # Waits until something has changed, `ms` or a tick at most.
        if self._tasks and ms > self._tick:
            self._changed.clear()
            await self._changed.wait()
        else:
            await _sleep_ms(min(ms, 10))

    # --- what an application asks for ---

    def __aiter__(self):
        self._on_message = self._offer
        return self

    def _offer(self, message):
        self._held = _OFFERED

    async def __anext__(self):
        if self._held == _IN_USE:
            self._held = 0
            self._wake()
        while self._held != _OFFERED:
            self._offered.clear()
            await self._offered.wait()
        self._held = _IN_USE
        self._consumer = asyncio.current_task()
        return self._message

    def _outside(self):
        if self._held == _IN_USE and self._consumer is asyncio.current_task():
            raise ValueError("a message is in use: only publish() and disconnect() before the next one")

    async def publish(self, topic, payload=b"", qos=0, retain=False):
        """Publishes payload (str or bytes-like). QoS 1 and 2: durable when this returns, sent now
        or after the next reconnection; cancelled before: the message was not taken. QoS 0: the
        socket has it when this returns; cancelled before: it may go on, leave payload alone.
        Returns the Message ID; 0 at QoS 0 or when dropped.
        Raises ValueError; OutboxFull; OSError at QoS 0 without a connection."""
        mid = self._take(topic, payload, qos, retain, True)
        if mid < 0:
            mid = await self._take_later(topic, payload, qos, retain)
        if self._left and not qos:
            await self._written()
        return mid

    def _take(self, topic, payload, qos, retain, patient):
        # Returns the Message ID; -1: not now. While the broker takes messages a full journal is
        # worth waiting for.
        self._check(topic, qos)
        payload = self._payload(payload)
        if not self._try_flush():
            return -1
        if not qos and (not self.connected or self._broken):
            raise OSError(ENOTCONN)
        try:
            mid = self.session.publish(self._name, payload, qos, retain)
        except OutboxFull:
            if not patient or not self.connected or self._held == _IN_USE:
                raise
            return -1
        self._try_flush()
        return mid

    async def _take_later(self, topic, payload, qos, retain):
        end = ticks_add(ticks_ms(), self._timeout)
        mid = -1
        while mid < 0:
            await self._change()
            mid = self._take(topic, payload, qos, retain, ticks_diff(end, ticks_ms()) > 0)
        return mid

    async def _written(self):
        link = self._link
        while self._left:
            await self._change()
            if self._broken or self._link is not link:
                raise OSError(ECONNRESET)

    async def drain(self, ms):
        """Waits until the broker has completed every message of QoS 1 and 2. Returns True if it
        has, False if `ms` passed before."""
        self._outside()
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
        self._outside()
        if not handler and not self._on_message:
            handler = self._offer  # a message may come before the loop begins
        patterns, levels = self._add_handlers(filters, qos, handler, stream)
        async with self._lock:
            if not await self._is_up():
                return None
            await self._ask(patterns, levels)
            granted = self._granted(patterns)
        return granted[0] if isinstance(filters, (str, bytes)) else granted

    async def unsubscribe(self, *filters):
        """Gives up filters; messages on their way may still come. Raises ValueError; OSError
        without a connection. [MQTT-3.10]"""
        self._outside()
        patterns = self._drop_handlers(filters)
        async with self._lock:
            await self._is_up()
            await self._ask(patterns, None)

    async def ping(self):
        """Sends PINGREQ. Returns the round trip in ms. Raises OSError. [MQTT-3.12]"""
        self._outside()
        start = ticks_ms()
        async with self._lock:
            if await self._is_up():
                self.session.ping()
            await self._until(lambda: not self.session.pinging)
        return ticks_diff(ticks_ms(), start)

    async def _is_up(self):
        # A connection that is being made asks for its own handlers first.
        while self._link and not self._up:
            await self._change()
        return self._up

    async def _ask(self, patterns, levels):
        # The request of a caller that was cancelled may still be under way.
        await self._until(lambda: not self.session.asking)
        self.session.subscribe(patterns, levels)
        await self._until(lambda: not self.session.asking)

    async def _until(self, done):
        link = self._up and self._link
        self._try_flush()
        end = ticks_add(ticks_ms(), self._timeout)
        while True:
            if not link or self._link is not link:
                raise OSError(ENOTCONN)
            if done():
                return
            if self._held:
                end = ticks_add(ticks_ms(), self._timeout)  # nothing is read meanwhile
            elif ticks_diff(end, ticks_ms()) <= 0:
                self._abort(OSError(ETIMEDOUT))
                raise OSError(ETIMEDOUT)
            await self._change()
