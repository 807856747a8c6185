# The asyncio client: the same session in one task, which connects, reads, and waits when the
# socket takes no more; another one wakes it for the timers. Everybody may write, but nothing is
# awaited within a step of the session: a caller that is cancelled leaves packets and journal
# whole, and what is half written goes on. Messages for `async for` are kept by consumers.
#
# An operation that was interrupted (Ctrl-C, no memory, flash that failed) leaves a mark: session.busy, or _guard
# while bytes or a message change hands. Nothing is written any more then. _recover() replaces the client's tasks,
# which may wait in the middle of something, and reads the journal anew.

import asyncio
import sys
from errno import ECONNABORTED, ECONNRESET, ENOTCONN

import inflight.counters as counters

from ..compat import passed, ticks_diff, ticks_ms
from ..errors import OutboxFull
from ..net.io_waiter import IOWaiter, create_task, open_socket, sleep_ms
from ..net.transport import Transport
from ..states import CONNECTING, CONSUMER, IDLE, INTERRUPTED, OPEN, POLL, READING, UP, WRITE
from .base import Base


class AsyncClient(Base):
    """The asyncio client. Base tells its arguments; handlers are plain functions.

    async with AsyncClient(...) as client: keeps the connection up, and up again when it breaks.
    async for message in client: messages without a handler of their own. A message is acknowledged when the task
    that took it asks for the next one, or ends. Several tasks may ask; each message goes to one of them. With
    reconnect=False it raises what ended the connection.

    On CPython a client belongs to the event loop that it first waits in: make another one for another asyncio.run()."""

    _failures = (Exception, asyncio.CancelledError)  # the latter of a task that it looks at: nobody cancels it itself

    def __init__(self, host, client_id="", journal=None, **options):
        super().__init__(host, client_id, journal, **options)
        self._tick = min(self.session.tick, self._timeout_ms // 4 or 1)
        self._tasks = ()
        self._waiter = IOWaiter()
        self._error = None  # what ended the last attempt or connection
        self._lock = asyncio.Lock()  # one request at a time
        self._changed = asyncio.Event()  # something was read or written, or time has passed
        self._granted_qos = None  # what the last one was granted

    # --- life ---

    async def __aenter__(self):
        self._start()
        return self

    async def __aexit__(self, *_):
        await self.disconnect()

    def _start(self):
        self._closed = False
        if not self._tasks or self._has_lost_a_task():
            self._run_anew()

    def _has_lost_a_task(self):
        # An interrupt has ended it before it could do anything about that.
        return self._tasks and (self._tasks[0].done() or self._tasks[1].done())

    def _run_anew(self):
        self._stop()
        self._tasks = (create_task(self._run()), create_task(self._watch()))

    def _stop(self):
        # Whoever calls this may be one of the tasks.
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    def _restart(self, error=None):
        # After an interrupt (error None), or flash that failed; only if they were running.
        if self._tasks and not self._closed:
            if self._reconnect:
                self._run_anew()
            else:
                self._give_up(error or OSError(ECONNABORTED, "interrupted: the client connects again"))

    async def connect(self):
        """Connects now. Raises OSError, ConnectRefused, ProtocolError, ValueError (the buffer is too
        small); the client goes on trying until disconnect(), unless reconnect=False. Returns before the subscriptions
        are made if messages for `async for` come first: what fails then, that raises."""
        self._next_attempt = ticks_ms()
        self._error = None
        self._start()
        tasks = self._tasks
        while not (self.connected and (self._state == UP or self._consumers and self._consumers.paused)):
            if self._error or self._tasks is not tasks:
                raise self._error or OSError(ECONNABORTED, "disconnected")
            await self._wait_for_change()

    async def disconnect(self, will=False):
        """As Client.disconnect(). A message that is still in use was not acknowledged: at QoS 1 it comes again, `dup`,
        and at QoS 2 if the power is cut before it is released, `redelivered`. Never raises because of the
        connection."""
        self._check_will(will)
        start = ticks_ms()
        try:  # nobody understands a DISCONNECT within another packet
            while self.connected and self._out_left and not self._broken and not self._timed_out(start):
                await self._wait_for_change()
        finally:
            self._closed = True
            try:
                self._try_disconnect(will)
            finally:
                self._end(None)
            self._check_interrupted()
            self.session.commit()
        await sleep_ms(0)  # the tasks come to their end

    def _try_disconnect(self, will):
        # As far as the socket takes it at once.
        try:
            if self.connected and self._write():
                self.session.disconnect(4 if will else 0)
                self._write()
        except Exception:
            pass  # it is gone already

    def _end(self, error):
        # Nothing goes on by itself from here on.
        self._closed = True
        self._stop()
        self._close()
        if self._consumers:
            self._consumers.message_ready.set()
        self._tasks = ()
        self._report_end(error)

    def _close(self):
        self._requested = None
        if self._consumers:
            self._consumers.connection_closed()
        self._waiter.wake()  # nobody waits for a closed socket
        super()._close()
        self._changed.set()

    def _begin(self, bits):
        pass  # calls of one loop do not come within each other: no flag is left behind

    def _check_interrupted(self, error=None):
        if self.session.busy:
            self._recover(error)
        elif self._has_lost_a_task():
            self._restart()

    def _recover(self, error=None):
        self._restart(error)
        super()._recover(error)

    def _is_mine(self):
        # False of a task behind whose start an interrupt came, before anybody could note it.
        return asyncio.current_task() in self._tasks

    async def _run(self):
        try:
            while not self._closed and self._is_mine():
                await sleep_ms(0)  # a network that fails at once leaves time to the others
                try:
                    await self._run_connection()
                except Exception as e:  # whatever it is: without this task nothing moves any more
                    self._error = e
                    self._give_up(e)
        except KeyboardInterrupt:  # goes to whoever runs the loop: if that goes on, so does the client
            self._restart()
            raise

    async def _run_connection(self):
        # One connection, from its attempt to its end.
        while not self._attempt_due(ticks_ms()):
            await sleep_ms(20)
            self._collect(True)
        # Was the one before interrupted?
        if self._state != IDLE or self._guard & INTERRUPTED or self.session.busy:
            super()._recover()
        await self._open()
        while not (self._consumers and self._consumers.reconnect):
            if not self.connected:  # behind DISCONNECT nothing is read, though disconnect() was interrupted
                raise OSError(ECONNABORTED, "disconnected")
            await self._advance()
        while not self._write():
            await self._waiter.wait(self._transport.file, True)
        self.session.disconnect()
        self._write()
        self._close()
        self._next_attempt = ticks_ms()
        self._report_end(None)

    def _give_up(self, error):
        # What is not done here for want of memory, _live() finds.
        try:
            if self._reconnect:
                self._connection_failed(error)
            else:
                self._drop_connection(error)
                self._end(error)
        except MemoryError:
            pass

    async def _watch(self):
        try:
            while self._is_mine():
                if self._has_lost_a_task():
                    self._restart()
                    return
                await sleep_ms(self._tick)
                try:
                    self._changed.set()
                    self._wake()
                except MemoryError:
                    pass  # the next tick does it
        except KeyboardInterrupt:
            self._restart()
            raise

    def _wake(self):
        # The client's task, and nobody else: publishers that find the socket full would wake each other without end.
        if self._consumers:
            self._consumers.asked.set()
        self._waiter.wake()

    async def _open(self):
        steps = self._connect_steps()
        try:
            for step in steps:
                if step == POLL:
                    if self.session.time_left(ticks_ms(), self._waiting_since) <= 0:
                        raise self.session.fault()
                    await self._advance()
                    continue
                if step == OPEN:
                    sock = await open_socket(self._waiter, self._host, self._port, self._timeout_ms)
                    self._transport = Transport(sock, self._host, self._tls)
                self._waiting_since = ticks_ms()
        finally:
            steps.close()
        self._report_connect()
        self._tick = min(self._tick, self.session.tick)  # the broker may want shorter intervals
        self._error = None
        self._changed.set()

    # --- moving bytes ---

    def _write(self):
        # As Base has it; then go acknowledgements of what consumers are through with.
        while super()._write():
            self._guard |= READING
            more = self.session.connected and self._consumers and self._consumers.acknowledge()
            self._guard &= ~READING
            if not more:
                return True
        return False

    def _try_flush(self):
        # As _write(), for others than the client's task, which then waits, or ends the connection.
        try:
            done = self._write()
        except Exception as e:
            self._abort(e)
            return True
        if not done:
            self._wake()
        return done

    def _abort(self, error):
        # Ends the connection: that is for the client's task to do.
        if self._transport and not self._broken:
            self._broken = error
            self._wake()

    def _timed_out(self, start, parts=1):
        return passed(ticks_ms(), start, self._timeout_ms // parts)

    async def _advance(self):
        # A step, and a wait for what it needs, a tick at most.
        need = self._step()
        while need == WRITE:
            await self._waiter.wait(self._transport.file, True)
            need = self._step()
        self._changed.set()
        if need == CONSUMER:
            start = ticks_ms()
            self._consumers.asked.clear()
            await self._consumers.asked.wait()
            self._waiting_since = ticks_ms()  # the time of the application is not the broker's
            self.session.paused(start, ticks_ms())
        elif need:
            await self._waiter.wait(self._transport.file, False)
            if self._waiter.woken:
                self._collect(True)
        else:
            self._collect(False)
            await sleep_ms(0)  # a broker that never pauses leaves time to the others

    def _deliver(self):
        taken = self._consumers.deliver() if self._consumers else False
        return super()._deliver() if taken is False else taken

    def _answered(self):
        if not self.session.request:  # or the packet was none of its SUBACK
            self._granted_qos = self._take_granted(*self._requested)  # whoever asked, and may have been cancelled
            self._requested = None

    async def _wait_for_change(self, ms=1 << 20):
        # Waits until something has changed, `ms` or a tick at most.
        if self._has_lost_a_task():
            self._restart()
        if self._tasks and ms > self._tick:
            self._changed.clear()
            await self._changed.wait()
        else:
            await sleep_ms(min(ms, 10))

    # --- what an application asks for ---

    def __aiter__(self):
        self._receive_here()
        return self

    def __anext__(self):
        # The consumer is who calls this: asyncio.wait_for() may let a task of its own wait for the message.
        return self._receive_here().next(asyncio.current_task())

    def _receive_here(self):
        # From now on messages without a handler are for consumers.
        if not self._consumers:
            from .consumers import Consumers, not_handled

            self._consumers = Consumers(self)
            self.on_message = not_handled
        return self._consumers

    async def publish(self, topic, payload=b"", qos=0, retain=False, properties=None):
        """As Client.publish(). Cancelled at QoS 1 and 2: the message was not taken. At QoS 0: it may
        be half written and goes on, so leave the payload alone."""
        mid = self._try_publish(topic, payload, qos, retain, properties)
        if mid < 0:
            mid = await self._publish_later(topic, payload, qos, retain, properties)
        if self._out_left and not qos:
            await self._wait_written()
        if not self._tasks:
            self._collect(None)  # else the client's task does
        return mid

    def _try_publish(self, topic, payload, qos, retain, properties, may_wait=True):
        # Returns the Message ID; -1: not now. While the broker takes messages a full journal is worth waiting for.
        self._check_interrupted()
        self._check(topic, qos, retain, properties)
        payload = self._encode_payload(payload)
        if not self._try_flush():
            return -1
        if not qos and (not self.connected or self._broken):
            raise OSError(ENOTCONN, "not connected")
        try:
            mid = self.session.publish(self.session.name, payload, qos, retain)
        except OutboxFull:
            if not may_wait or not self.connected:
                raise
            return -1
        except OSError as e:
            # The flash failed: once more, when the journal has looked at it.
            self._check_interrupted(e)
            mid = self.session.publish(self.session.name, payload, qos, retain)
        self._try_flush()
        return mid

    async def _publish_later(self, topic, payload, qos, retain, properties):
        start = ticks_ms()
        mid = -1
        while mid < 0:
            await self._wait_for_change()
            mid = self._try_publish(topic, payload, qos, retain, properties, not self._timed_out(start))
        return mid

    async def _wait_written(self):
        transport = self._transport
        while self._out_left:
            await self._wait_for_change()
            if self._broken or self._transport is not transport:
                raise OSError(ECONNRESET, "the connection broke")

    async def drain(self, ms=None, mid=0):
        """As Client.drain(), waiting for the client's task. With reconnect=False it raises what ended the
        connection."""
        left = 0 if ms is None else ms
        end = self._end_of(left, mid)
        session = self.session
        dropped = session.count[counters.DROPPED] - session.lost
        while self.is_pending(mid) if mid else self.pending:
            if self._closed and self._last_error and not self._reconnect:
                raise self._last_error
            if ms is None:
                left = 1000 if self._tasks else 0
            if left <= 0 or not (
                session.busy or session.rows or session.queued or session.aside and session.aside.left
            ):
                return False
            await self._wait_for_change(left)
            left = ticks_diff(end, ticks_ms())
        self._check_interrupted()
        session.commit()
        self._collect(None)
        session.lost = 0
        return session.count[counters.DROPPED] == dropped

    async def discard(self, mid, seq=-1):
        """As Client.discard(). Waits while the message is being written."""

        while True:
            self._check_interrupted()
            done = self.session.discard_message(mid, seq)
            if done is not None:
                return done
            await self._wait_for_change()

    async def subscribe(self, filters, qos=0, handler=None, stream=False):
        """As Client.subscribe(); without handler and on_message it is for `async for`. Cancelled: the filter stays,
        asked for now or at the next connection, until unsubscribe()."""
        handlers = self._make_handlers(filters, qos, handler, stream)
        if not self._message:
            self._make_message()
        patterns, qos_list = self._add_handlers(handlers)
        if not handler and not self.on_message:
            self._receive_here()  # a message may come before the loop begins
        async with self._lock:
            if not await self._is_ready():
                return None
            codes = []
            for patterns, qos_list, identifier in self._requests_for(patterns, qos_list):
                await self._request(patterns, qos_list, identifier, handlers)
                codes += self._granted_qos
        return codes[0] if isinstance(filters, (str, bytes)) else codes

    async def unsubscribe(self, *filters):
        """As Client.unsubscribe()."""
        patterns = self._encode_filters(filters)
        async with self._lock:
            if await self._is_ready():
                self._remove_handlers(patterns)
            await self._request(patterns, None, 0, None)

    async def ping(self):
        """As Client.ping()."""
        start = ticks_ms()
        session = self.session
        async with self._lock:
            if await self._is_ready():
                session.ping_requested = True
            await self._wait_until(lambda: not session.pinging)
        return ticks_diff(ticks_ms(), start)

    async def _is_ready(self):
        # A connection that is being made asks for its own handlers first.
        self._check_interrupted()
        while self._state == CONNECTING:
            await self._wait_for_change()
        return self._state == UP

    async def _request(self, patterns, qos_list, identifier, handlers):
        # The request of a caller that was cancelled may still be under way.
        await self._wait_until(lambda: self.session.request is None)
        self.session.subscribe(patterns, qos_list, identifier)
        self._requested = qos_list and (patterns, handlers)
        await self._wait_until(lambda: self.session.request is None)

    async def _wait_until(self, done):
        transport = self._state == UP and self._transport
        self._try_flush()
        start = ticks_ms()
        while transport and self._transport is transport:
            if done():
                return
            if self.session.time_left(ticks_ms(), start) <= 0:
                error = self.session.fault()
                self._abort(error)
                raise error
            await self._wait_for_change()
        raise transport and self._error or OSError(ENOTCONN, "not connected")


if sys.implementation.name != "micropython":
    from ..cpython import keep_to_one_loop

    keep_to_one_loop(AsyncClient)
