# The blocking client: a socket around the session.

from errno import ECONNABORTED, ENOTCONN, ETIMEDOUT

import inflight.packet as packet

from .base import DIAL, READING, TURN, WRITING, Base
from .journal import OutboxFull
from .link import Link, dial
from .port import sleep_ms, ticks_add, ticks_diff, ticks_ms
from .session import DROPPED, SENT


class Client(Base):
    """The blocking client. Base tells its arguments."""

    def __init__(self, host, client_id="", journal=None, **options):
        super().__init__(host, client_id, journal, **options)
        self._link = None
        self._began = ticks_ms()  # since when an answer is waited for
        self._wanted = True  # run_for() keeps the connection up
        self._broken = None  # what broke the link while a handler ran

    # --- connecting ---

    def connect(self):
        """Connects now. Subscribe before, so that no message comes without its handler.
        Raises OSError (no link), ConnectRefused, ProtocolError; run_for() tries again, unless reconnect=False."""
        self.disconnect()
        self._wanted = True
        self._up_at = None
        try:
            for step in self._opening():
                self._take(step)
        except Exception as e:
            self._end_link(e)
            self._ended = e
            raise

    def _take(self, step):
        if step == TURN:
            self._turn_until()
            return
        if step == DIAL:
            self._link = Link(dial(self._host, self._port, self._timeout), self._host, self._tls, self._timeout)
        self._begin_wait()

    def _begin_wait(self):
        self._began = ticks_ms()

    def _close(self):
        if self._link:
            self._link.close()
            self._link = None
        self._broken = None
        self._torn = 0
        self.session.reset()

    def _failed(self, error):
        if self._inside:
            self._broken = error  # the handler's message has to be settled first
            self.session.out.forget()
            return
        super()._failed(error)

    def disconnect(self):
        """Ends the connection; the broker keeps the session, the journal what is in flight."""
        self._outside()
        self._wanted = False
        self._check_whole()
        if self.connected:
            try:
                self._flush()
                self._leave()
            except OSError:
                pass  # it is gone already
        self._close()
        self.session.commit()
        self._report_end(None)

    # --- moving bytes ---

    def _is_torn(self):
        # Interrupted in the session, while bytes moved, between parts of a packet, or while connecting.
        session = self.session
        return self._torn or session.busy or session.out.within_packet or (self._link and self._up_at is None)

    def _check_whole(self, error=None):
        if not self._inside and self._is_torn():
            self._mend(error)

    def _flush(self):
        session = self.session
        if self._torn & WRITING:
            raise OSError(ECONNABORTED, "interrupted within a packet")
        self._torn |= WRITING
        n = session.output(ticks_ms())
        while n:
            self._link.write(session.out.view, session.out.at, n)
            n = session.output(ticks_ms())
        self._torn &= READING

    def _turn(self, ms):
        # Writes what is due, waits up to `ms` for something to read, and handles it. Returns False if nothing came.
        session = self.session
        if self._broken:
            raise self._broken
        self._flush()
        decoder = session.decoder
        self._torn = READING
        n = self._link.receive(decoder.view, decoder.space)
        if not n and ms > 0:
            self._torn = 0
            self._link.wait(min(ms, session.tick))
            self._torn = READING
            n = self._link.receive(decoder.view, decoder.space)
        if not n:
            self._torn = 0
            if session.keep_alive.overdue(ticks_ms()):
                raise OSError(ETIMEDOUT, "no answer")
            return False
        session.fed(n, ticks_ms())
        kind = session.receive(ticks_ms())
        while kind:
            if kind == packet.PUBLISH:
                self._deliver()
            elif session.completed:
                self._report_complete(session.completed)
                if self._broken:
                    raise self._broken
            self._flush()
            if session.code:
                break
            kind = session.receive(ticks_ms())
        self._torn = 0
        return True

    def _deliver(self):
        if self.session.deliver:
            start = ticks_ms()
            try:
                try:
                    self._inside = True
                    self._dispatch()
                finally:
                    self._inside = False
            finally:  # an interrupt may come in the line above
                self._inside = False
            self._began = ticks_add(self._began, ticks_diff(ticks_ms(), start))  # that was not the broker's time
        self.session.taken()
        if self._broken:
            raise self._broken

    def _turn_until(self):
        left = self.session.keep_alive.left(ticks_ms(), self._began)
        if left <= 0:
            raise OSError(ETIMEDOUT, "no answer")
        self._turn(left)

    def _outside(self):
        if self._inside:
            raise ValueError("inside a handler only publish() can be called")

    def run_for(self, ms):
        """Keeps the connection for `ms` (less than 6 days): acknowledgements, redelivery, keep alive, handlers, and
        connecting again. Never raises for the sake of the link; with reconnect=False it raises what ended the
        connection that connect() made, and OSError without one."""
        self._outside()
        end = ticks_add(ticks_ms(), ms)
        while ms > 0:
            self._step(ms)
            ms = ticks_diff(end, ticks_ms())

    def _step(self, ms):
        if not self._reconnect and not self.connected:
            raise self._ended or OSError(ENOTCONN, "not connected")
        try:
            if self._is_due(ticks_ms()):
                self._check_whole()
            if self.session.connected:
                idle = not self._turn(ms)
            elif self._wanted and self._is_due(ticks_ms()):
                self.connect()
                return
            else:
                sleep_ms(min(ms, 50))
                idle = True
            self.session.tidy(idle)
        except (OSError, packet.ProtocolError, MemoryError) as e:
            self._failed(e)
            if not self._reconnect:
                raise

    def drain(self, ms, mid=0):
        """Like run_for(), until no message of QoS 1 and 2 is pending, or not message `mid` any more. Returns True
        if the broker has completed them, False if `ms` passed before, or if one was given up or dropped meanwhile."""
        self._outside()
        end = ticks_add(ticks_ms(), ms)
        dropped = self.session.count[DROPPED]
        while self.is_pending(mid) if mid else self.pending:
            left = ticks_diff(end, ticks_ms())
            if left <= 0:
                return False
            self._step(left)
        self.session.commit()
        return self.session.count[DROPPED] == dropped

    # --- what an application asks for ---

    def publish(self, topic, payload=b"", qos=0, retain=False):
        """Publishes payload (str or bytes-like). QoS 1 and 2: durable when this returns, sent now
        or after the next reconnection. Returns the Message ID; 0 at QoS 0 or when dropped.
        Raises ValueError; OutboxFull; OSError at QoS 0 without a connection, or if flash fails.
        [MQTT-4.3.1-1, 4.3.2-1, 4.3.3-1]"""
        session = self.session
        if topic is self._topic and qos == 0 and not (retain or self._torn or session.busy):
            n = session.out.repeat(payload)
            if n:
                self._write_repeated(n)
                return 0
        self._check_whole()
        self._check(topic, qos)
        if payload.__class__ is not bytes:
            payload = self._payload(payload)
        if not qos:
            return self._publish_now(payload, retain)
        try:
            mid = session.publish(session.out.name, payload, qos, retain)
        except OutboxFull:
            mid = self._accept(payload, qos, retain)
        except OSError as e:
            # The flash failed: once more, when the journal has looked at it. Within a handler its message comes first.
            self._check_whole(e)
            mid = session.publish(session.out.name, payload, qos, retain)
        if session.connected and not self._broken:
            try:
                self._flush()
                if session.blocked and not self._inside:
                    self._turn(0)  # a full window opens when its acknowledgements are read
            except (OSError, packet.ProtocolError) as e:
                self._failed(e)
        return mid

    def _write_repeated(self, n):
        # A message of QoS 0 to the same topic as the last one, of the same length: nothing else waits to be written.
        buf = self.session.out.buf
        self._torn = WRITING
        try:
            done = self._link.stream.write(buf, 0, n) or 0
            if done != n:
                self._link.write(buf, done, n - done)
        except OSError as e:
            self._failed(e)
            raise
        self.session.count[SENT] += 1
        self._torn = 0

    def _publish_now(self, payload, retain):
        if not self.connected or self._broken:
            raise OSError(ENOTCONN, "not connected")
        try:
            self._flush()
            self.session.publish(self.session.out.name, payload, 0, retain)
            self._flush()
        except OSError as e:
            self._failed(e)
            raise
        return 0

    def _accept(self, payload, qos, retain):
        # While the broker takes messages a full journal is worth waiting for.
        end = ticks_add(ticks_ms(), self._timeout)
        name = self.session.out.name
        while True:
            try:
                return self.session.publish(name, payload, qos, retain)
            except OutboxFull:
                if self._inside or not self.connected or ticks_diff(end, ticks_ms()) <= 0:
                    raise
            try:
                self._turn(100)
            except (OSError, packet.ProtocolError) as e:
                self._failed(e)

    def subscribe(self, filters, qos=0, handler=None, stream=False):
        """Subscribes to one filter, or to several: [(filter, qos), ...]. handler(message) gets
        what matches; with stream also payloads longer than the buffer, piece by piece.
        Returns the granted QoS (of several: a list), 128 where the broker refused; None while
        offline: then connect() subscribes. Raises ValueError, OSError. [MQTT-3.8]"""
        self._outside()
        self._check_whole()
        patterns, levels = self._add_handlers(filters, qos, handler, stream)
        if not self.connected:
            return None
        self.session.subscribe(patterns, levels)
        self._until(self._answered)
        granted = self._granted(patterns, self._handlers)
        return granted[0] if isinstance(filters, (str, bytes)) else granted

    def unsubscribe(self, *filters):
        """Gives up filters; messages on their way may still come. Raises ValueError; OSError
        without a connection. [MQTT-3.10]"""
        self._outside()
        patterns = self._encode_filters(filters)
        self._online()
        for pattern in patterns:
            self._remove_handler(pattern)
        self.session.subscribe(patterns, None)
        self._until(self._answered)

    def ping(self):
        """Sends PINGREQ. Returns the round trip in ms. Raises OSError. [MQTT-3.12]"""
        self._outside()
        self._online()
        start = ticks_ms()
        keep_alive = self.session.keep_alive
        keep_alive.asked = True
        self._until(lambda: not keep_alive.pinging)
        return ticks_diff(ticks_ms(), start)

    def _answered(self):
        return not self.session.asking

    def _online(self):
        self._check_whole()
        if not self.connected:
            raise OSError(ENOTCONN, "not connected")

    def _until(self, done):
        self._begin_wait()
        try:
            while not done():
                self._turn_until()
        except (OSError, packet.ProtocolError) as e:
            self._failed(e)
            raise
