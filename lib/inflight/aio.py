# The asyncio client: the same session in one task, which connects, reads, and waits when the
# socket takes no more; another one wakes it for the timers. Everybody may write, but nothing is
# awaited within a step of the session: a caller that is cancelled leaves packets and journal
# whole, and what is half written goes on.

import asyncio
from errno import ECONNABORTED, ECONNRESET, ENOTCONN, ETIMEDOUT

import inflight.packet as packet

from .base import DIAL, TURN, Base
from .gate import Gate, dial, sleep_ms
from .journal import OutboxFull
from .link import PACE, Link
from .port import const, passed, ticks_add, ticks_diff, ticks_ms
from .session import DROPPED

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
        self._wrote = self._began = 0  # since when the socket takes what it took; a step of connecting began
        self._took = 0  # bytes since then
        self._tick = min(self.session.tick, self._timeout // 4 or 1)
        self._tasks = ()
        self._over = False  # disconnect() ended it
        self._gate = Gate()
        self._up = False
        self._error = self._broken = None  # what ended the last attempt or connection; shall end this one
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
        self._over = False
        if not self._tasks:
            self._tasks = (asyncio.create_task(self._run()), asyncio.create_task(self._watch()))

    async def connect(self):
        """Connects now. Raises OSError, ConnectRefused, ProtocolError, ValueError (the buffer is too
        small); the client goes on trying until disconnect()."""
        self._due = ticks_ms()
        self._error = None
        self._start()
        tasks = self._tasks
        while not self._up and not (self._held and self.connected):
            if self._error or self._tasks is not tasks:
                raise self._error or OSError(ECONNABORTED, "disconnected")
            await self._change()

    async def disconnect(self):
        """Ends the connection; the broker keeps the session, the journal what is in flight. What the
        iterator handed out last was not acknowledged: it comes again, `dup` or `redelivered`."""
        start = ticks_ms()
        try:  # nobody understands a DISCONNECT within another packet
            while self.connected and self._left and not self._broken and not self._late(start):
                await self._change()
        finally:
            if self.connected and self._try_flush() and not self._broken:
                self._leave()
            for task in self._tasks:
                task.cancel()
            self._tasks = ()
            self._over = True
            self._offered.set()
            self._close()
            self.session.commit()

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
            await sleep_ms(0)  # a network that fails at once leaves time to the others
            try:
                while not self._is_due(ticks_ms()):
                    await sleep_ms(20)
                    self.session.tidy()
                self._broken = None
                await self._open()
                while True:
                    await self._turn()
            except Exception as e:  # whatever it is: without this task nothing moves any more
                self._error = e
            self._failed(self._error)

    async def _watch(self):
        while True:
            await sleep_ms(self._tick)
            self._wake()

    def _wake(self):
        self._changed.set()
        self._settled.set()
        self._gate.wake()

    async def _open(self):
        for step in self._opening():
            if step == TURN:
                if self.session.left(ticks_ms(), self._began) <= 0:
                    raise OSError(ETIMEDOUT, "no answer")
                await self._turn()
                continue
            if step == DIAL:
                sock = await dial(self._gate, self._host, self._port, self._timeout)
                self._link = Link(sock, self._host, self._tls, self._timeout)
            self._began = self._wrote = ticks_ms()
        self._up = True
        self._error = None
        self._changed.set()

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
                self._take_time()
            done = self._link.send(session.out, self._at, self._left)
            if not done:
                return False
            self._at += done
            self._left -= done
            self._took += done
            if self._took >= PACE:
                self._take_time()

    def _take_time(self):
        # The socket has a time-out for the next bytes.
        self._took = 0
        self._wrote = ticks_ms()

    def _try_flush(self):
        # As _flush(), for others than the client's task, which then waits, or ends the connection.
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

    def _late(self, start):
        return passed(ticks_ms(), start, self._timeout)

    async def _room(self):
        # Waits until the socket takes more, a tick at most.
        if self._late(self._wrote):
            self._abort(OSError(ETIMEDOUT, "the broker takes too little"))
        else:
            await self._gate.wait(self._link.stream, True)

    async def _turn(self):
        # Writes what is due, reads once and handles it. Waits for bytes, a tick at most.
        session = self.session
        decoder = session.decoder
        while not self._flush():
            await self._room()
        self._changed.set()
        n = self._link.receive(decoder.view, decoder.space)
        if not n:
            if session.overdue(ticks_ms()):
                raise OSError(ETIMEDOUT, "no answer")
            await self._gate.wait(self._link.stream, False)
            if self._gate.woken:
                session.tidy()
            return
        session.fed(n, ticks_ms())
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
        await sleep_ms(0)  # a broker that never pauses leaves time to the others

    async def _hold(self):
        # The iterator has a message: until it asks for the next one all goes on but reading.
        self._offered.set()
        while self._held:
            if self._held == _OFFERED and self._broken:
                raise self._broken
            if self._held == _IN_USE and self._consumer.done():
                self._held = 0  # whoever had it has left
                break
            if self.session.keepalive and self.session.is_unanswered(ticks_ms(), self.session.keepalive):
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
            await sleep_ms(min(ms, 10))

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
            if self._over:
                raise StopAsyncIteration
            self._offered.clear()
            await self._offered.wait()
        self._held = _IN_USE
        self._consumer = asyncio.current_task()
        return self._message

    def _is_inside(self):
        return self._held == _IN_USE and self._consumer is asyncio.current_task()

    def _outside(self):
        if self._is_inside():
            raise ValueError("a message is in use: only publish() and disconnect() before the next one")

    async def publish(self, topic, payload=b"", qos=0, retain=False):
        """As Client.publish(). Cancelled at QoS 1 and 2: the message was not taken. At QoS 0: it may
        be half written and goes on, so leave the payload alone."""
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
            raise OSError(ENOTCONN, "not connected")
        try:
            mid = self.session.publish(self.session.name, payload, qos, retain)
        except OutboxFull:
            if not patient or not self.connected or self._is_inside():
                raise
            return -1
        self._try_flush()
        return mid

    async def _take_later(self, topic, payload, qos, retain):
        start = ticks_ms()
        mid = -1
        while mid < 0:
            await self._change()
            mid = self._take(topic, payload, qos, retain, not self._late(start))
        return mid

    async def _written(self):
        link = self._link
        while self._left:
            await self._change()
            if self._broken or self._link is not link:
                raise OSError(ECONNRESET, "the connection broke")

    async def drain(self, ms):
        """Waits until the broker has completed every message of QoS 1 and 2. Returns True if it
        has, False if `ms` passed before, or if one was given up or dropped meanwhile."""
        self._outside()
        end = ticks_add(ticks_ms(), ms)
        dropped = self.session.count[DROPPED]
        while self.pending and ms > 0:
            await self._change(ms)
            ms = ticks_diff(end, ticks_ms())
        self.session.commit()
        return not self.pending and self.session.count[DROPPED] == dropped

    async def subscribe(self, filters, qos=0, handler=None, stream=False):
        """As Client.subscribe(); without handler and on_message it is for `async for`."""
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
        """As Client.unsubscribe()."""
        self._outside()
        patterns = self._encode_filters(filters)
        async with self._lock:
            if await self._is_up():
                for pattern in patterns:
                    self._remove_handler(pattern)
            await self._ask(patterns, None)

    async def ping(self):
        """As Client.ping()."""
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
        start = ticks_ms()
        while link and self._link is link:
            if done():
                return
            if self._held:
                start = ticks_ms()  # nothing is read meanwhile
            elif self.session.left(ticks_ms(), start) <= 0:
                self._abort(OSError(ETIMEDOUT, "no answer"))
                raise OSError(ETIMEDOUT, "no answer")
            await self._change()
        raise link and self._error or OSError(ENOTCONN, "not connected")
