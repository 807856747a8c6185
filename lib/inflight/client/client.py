# The blocking client: a socket around the session.

import sys
from errno import ENOTCONN

import inflight.counters as counters

from ..compat import sleep_ms, ticks_add, ticks_diff, ticks_ms
from ..errors import OutboxFull, refuse
from ..net.transport import Transport
from ..packet import ProtocolError
from ..states import IDLE, INTERRUPTED, OPEN, OUTSIDE, POLL, RUNNING, UP, WRITE, WRITING
from .base import Base


class Client(Base):
    """The blocking client. Base tells its arguments.

    It has one thread of control. publish() may be called from elsewhere: on MicroPython from a scheduled function
    (micropython.schedule, a soft timer), on CPython from any thread, which waits for its turn. It raises RuntimeError,
    before anything is written, if a call of this client is at work in the same thread. All other methods raise
    RuntimeError then, and while one of them runs in another thread.

    with Client(...) as client: disconnects at the end, whatever ends it."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.disconnect()

    # --- connecting ---

    def connect(self):
        """Connects now. Subscribe before, so that no message comes without its handler.
        Raises OSError (no link), ConnectRefused, ProtocolError; run_for() tries again, unless reconnect=False: after a
        pause if the broker refused."""
        before = self._guard
        try:
            self._begin(RUNNING | OUTSIDE)
            self._connect()
        finally:
            self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)

    def _connect(self):
        self._end_connection(False)
        self._closed = False
        self._connected_at = None
        steps = self._connect_steps()
        try:
            for step in steps:
                self._do_step(step)
            self._report_connect()
            self._collect(None)
        except Exception as e:
            self._drop_connection(e)
            self._last_error = e
            raise
        finally:
            steps.close()

    def _do_step(self, step):
        if step == POLL:
            left = self._time_left()
            self._poll(left)
            return
        if step == OPEN:
            from ..net.transport import open_socket

            guard = self._guard
            try:
                self._leave()
                sock = open_socket(self._host, self._port, self._timeout_ms)
            finally:
                self._return(guard)
            self._transport = Transport(sock, self._host, self._tls)
        self._waiting_since = ticks_ms()

    def _connection_failed(self, error):
        if self._guard & OUTSIDE:
            self._broken = error  # the handler's message has to be settled first
            self.session.forget()
            return
        super()._connection_failed(error)

    def disconnect(self, will=False):
        """Ends the connection; the broker keeps the session, the journal what is in flight. will, level 5: the broker
        publishes the will, unless the client is back before its delay has passed. Raises ValueError."""
        self._check_will(will)
        before = self._guard
        try:
            self._begin(RUNNING | OUTSIDE)
            self._end_connection(will)
            self._closed = True  # not before: an interrupted call leaves a client that connects again
        finally:
            self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)

    def _end_connection(self, will):
        self._check_interrupted()
        if self.connected:
            try:
                self._flush()
                self.session.disconnect(4 if will else 0)
                self._flush()
            except OSError:
                pass  # it is gone already
        self._close()
        self.session.commit()
        self._report_end(None)

    # --- moving bytes ---

    def _check_interrupted(self, error=None):
        if self._guard & OUTSIDE:
            return
        if self._broken:  # of on_connect: the connection broke there
            self._connection_failed(self._broken)
        # Interrupted in the session, while bytes moved, between parts of a packet, or while connecting.
        session = self.session
        within = session.busy or session.ready or session.out_left or self._out_left
        if self._guard & INTERRUPTED or within or self._state not in (IDLE, UP):
            self._recover(error)

    def _flush(self):
        while not self._write():
            self._transport.wait(100, True)

    def _wait(self, ms):
        # For something to read, or until an attempt to connect is due.
        guard = self._guard
        try:
            self._leave()
            if self._transport:
                self._transport.wait(ms)
            else:
                sleep_ms(ms)
        finally:
            self._return(guard)

    def _poll(self, ms):
        # A step, and another one when something has come, for which it waits up to `ms`. Returns False if nothing came.
        need = self._step()
        while need:
            if need == WRITE:
                self._flush()
            elif ms <= 0:
                return False
            else:
                self._wait(min(ms, self.session.tick))
                ms = 0
            need = self._step()
        return True

    def _time_left(self):
        # ms for an answer. Raises OSError if none are left.
        left = self.session.time_left(ticks_ms(), self._waiting_since)
        if left <= 0:
            raise self.session.fault()
        return left

    def run_for(self, ms):
        """Keeps the connection for `ms` (less than 6 days): acknowledgements, redelivery, keep alive, handlers, and
        connecting again. Never raises for the sake of the link; with reconnect=False it raises what ended the
        connection that connect() made, and OSError without one."""
        end = self._end_of(ms)
        before = self._guard
        try:
            self._begin(RUNNING | OUTSIDE)
            while ms > 0:
                self._run_step(ms)
                ms = ticks_diff(end, ticks_ms())
        finally:
            self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)

    def _run_step(self, ms):
        if not self._reconnect and not self.connected:
            raise self._last_error or OSError(ENOTCONN, "not connected")
        try:
            if self.session.connected or self._attempt_due(ticks_ms()):
                self._check_interrupted()
            if self.session.connected:
                idle = not self._poll(ms)
            elif self._reconnect and not self._closed and self._attempt_due(ticks_ms()):
                self._connect()
                return
            else:
                self._wait(min(ms, 50))
                idle = True
            self._collect(idle)
        except (OSError, ProtocolError, MemoryError) as e:
            self._guard &= ~OUTSIDE  # of a way back that was interrupted: no handler runs here
            self._connection_failed(e)
            if not self._reconnect:
                raise

    def drain(self, ms=None, mid=0):
        """Like run_for(), until no message of QoS 1 and 2 is pending, or not message `mid` any more; ms None: however
        long that takes. Returns True if the broker has completed them, False if `ms` passed before, if one was given
        up or dropped meanwhile, if one was found damaged since the last drain() or the start, of which on_error is told
        first, or if nothing but messages that were set aside is pending; without `ms` also behind disconnect(). True at
        once if `mid` is not pending (any more)."""
        end = self._end_of(0 if ms is None else ms, mid)
        before = self._guard
        try:
            self._begin(RUNNING | OUTSIDE)
            session = self.session
            dropped = session.count[counters.DROPPED] - session.lost
            while session.is_pending(mid) if mid else session.pending:
                left = 1000 if ms is None and not self._closed else ticks_diff(end, ticks_ms())
                found = session.busy or session.rows or session.queued or session.aside and session.aside.left
                if left <= 0 or not found:
                    return False
                self._run_step(left)
            self._check_interrupted()
            session.commit()
            self._collect(None)
            session.lost = 0
            return session.count[counters.DROPPED] == dropped
        finally:
            self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)

    # --- what an application asks for ---

    def publish(self, topic, payload=b"", qos=0, retain=False, properties=None):
        """Publishes payload (str or bytes-like). QoS 1 and 2: durable when this returns, sent now
        or after the next reconnection. Returns the Message ID; 0 at QoS 0 or when dropped.
        properties: what properties.properties() made; levels 3 and 4 send the message without them.
        Raises ValueError; OutboxFull; OSError at QoS 0 without a connection, or if flash fails; RuntimeError.
        [MQTT-4.3.1-1, 4.3.2-1, 4.3.3-1]"""
        session = self.session
        if topic is self._topic and qos == 0 and not (retain or self._guard or self._out_left or session.busy):
            if self._publish_repeated(topic, payload, properties):
                return 0
        before = self._guard
        try:
            self._begin(RUNNING)
            self._check_interrupted()
            self._check(topic, qos, retain, properties)
            if payload.__class__ is not bytes:
                payload = self._encode_payload(payload)
            if not qos:
                return self._publish_now(payload, retain)
            try:
                try:
                    mid = session.publish(session.name, payload, qos, retain)
                except OutboxFull:
                    mid = self._publish_when_free(topic, payload, qos, retain, properties)
            except OSError as e:
                # The flash failed: once more, when the journal has looked at it. Within a handler its message comes
                # first.
                self._check_interrupted(e)
                self._check(topic, qos, retain, properties)  # on_disconnect may have published
                mid = session.publish(session.name, payload, qos, retain)
            if session.connected and not self._broken:
                try:
                    self._flush()
                    if session.queued and not self._guard & OUTSIDE:
                        self._poll(0)  # a full window opens when its acknowledgements are read
                except (OSError, ProtocolError, MemoryError) as e:  # the message is accepted all the same
                    self._guard &= before | ~OUTSIDE
                    self._connection_failed(e)
            if session.notices and not self._guard & OUTSIDE:
                self._collect(None)
            return mid
        finally:
            self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)

    def _publish_repeated(self, topic, payload, properties):
        # A message of QoS 0 to the same topic as the last one, of the same length: nothing else waits to be written.
        # Returns False if it is another one.
        session = self.session
        try:
            self._guard = RUNNING | WRITING
            # The topic once more: a scheduled function may have published before the line above.
            n = session.repeat(payload, properties) if topic is self._topic else 0
            if n:
                done = self._transport.stream.write(session.out, 0, n) or 0
                if done != n:
                    session.view = session.out
                    self._out_at = done
                    self._out_left = n - done
                    self._took = 0
                    self._writing_since = ticks_ms()
                    self._guard = RUNNING
                    self._flush()
                session.count[counters.SENT] += 1
        except BaseException as e:
            self._guard = WRITING
            if isinstance(e, OSError):
                self._connection_failed(e)
            raise
        self._guard = 0
        return n

    def _publish_now(self, payload, retain):
        if not self.connected or self._broken:
            raise OSError(ENOTCONN, "not connected")
        try:
            self._flush()
            self.session.publish(self.session.name, payload, 0, retain)
            self._flush()
        except OSError as e:
            self._connection_failed(e)
            raise
        return 0

    def _publish_when_free(self, topic, payload, qos, retain, properties):
        # While the broker takes messages a full journal is worth waiting for.
        end = ticks_add(ticks_ms(), self._timeout_ms)
        while True:
            self._check(topic, qos, retain, properties)  # handlers may have published
            try:
                return self.session.publish(self.session.name, payload, qos, retain)
            except OutboxFull:
                if self._guard & OUTSIDE or not self.connected or ticks_diff(end, ticks_ms()) <= 0:
                    raise
            try:
                self._poll(100)
            except (OSError, ProtocolError, MemoryError) as e:
                self._guard &= ~OUTSIDE
                self._connection_failed(e)

    def discard(self, mid, seq=-1):
        """Gives up message `mid` (what publish() returned), durably. Its sequence number, what the journal's next_seq
        was before publish(), spares a search of the whole journal. Returns True, and counts it as dropped; False if
        it is not pending. One of QoS 2 that the broker may have stays pending until a PUBREL has ended its handshake.
        Raises OSError if flash fails. [MQTT-4.3.3-1]"""
        if mid.__class__ is not int:
            refuse("mid", mid)
        before = self._guard
        try:
            self._begin(RUNNING | OUTSIDE)
            self._check_interrupted()
            return self.session.discard_message(mid, seq)
        finally:
            self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)

    def subscribe(self, filters, qos=0, handler=None, stream=False):
        """Subscribes to one filter, or to several: [(filter, qos), ...]. handler(message) gets what matches; with
        stream also payloads longer than the buffer, piece by piece. Returns the granted QoS (of several: a list), 128
        or more where the broker refused, which on_error is told, too: it is asked again at each connection, until
        unsubscribe(). None while offline: then connect() subscribes. Raises ValueError, OSError. [MQTT-3.8]"""
        before = self._guard
        try:
            self._begin(RUNNING | OUTSIDE)
            self._check_interrupted()
            handlers = self._make_handlers(filters, qos, handler, stream)
            if not self._message:
                self._make_message()
            patterns, qos_list = self._add_handlers(handlers)
            if not self.connected:
                return None
            codes = []
            requests = self._requests_for(patterns, qos_list)
            for patterns, qos_list, identifier in requests:
                self.session.subscribe(patterns, qos_list, identifier)
                self._wait_for_answer()
                codes += self._take_granted(patterns, self._handlers)
            return codes[0] if isinstance(filters, (str, bytes)) else codes
        finally:
            self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)

    def unsubscribe(self, *filters):
        """Gives up filters, or those of a list; messages on their way may still come. Raises ValueError; OSError
        without a connection. [MQTT-3.10]"""
        before = self._guard
        try:
            self._begin(RUNNING | OUTSIDE)
            patterns = self._encode_filters(filters)
            self._check_connected()
            self._remove_handlers(patterns)
            self.session.subscribe(patterns, None)
            self._wait_for_answer()
        finally:
            self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)

    def ping(self):
        """Sends PINGREQ. Returns the round trip in ms. Raises OSError. [MQTT-3.12]"""
        before = self._guard
        try:
            self._begin(RUNNING | OUTSIDE)
            self._check_connected()
            start = ticks_ms()
            self.session.ping_requested = True
            self._wait_for_answer(True)
            return ticks_diff(ticks_ms(), start)
        finally:
            self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)

    def _check_connected(self):
        self._check_interrupted()
        if not self.connected:
            raise OSError(ENOTCONN, "not connected")

    def _wait_for_answer(self, ping=False):
        # That of the request, or of a PINGREQ.
        session = self.session
        self._waiting_since = ticks_ms()
        try:
            while session.pinging if ping else session.request is not None:
                left = self._time_left()
                self._poll(left)
            self._collect(None)
        except (OSError, ProtocolError, MemoryError) as e:
            self._guard &= ~OUTSIDE
            self._connection_failed(e)
            raise


if sys.implementation.name != "micropython":
    from ..cpython import share_among_threads

    share_among_threads(Client, RUNNING, OUTSIDE)
