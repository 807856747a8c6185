# What the blocking and the asyncio client share: the connection's state, the step that moves bytes, what the
# application is told, the pauses between connections. Nothing here waits: a step says what to wait for, and each client
# does that in its own way.
#
#   _state       there is                                       it ends with
#   IDLE         no connection                                  OPENING, when an attempt is due
#   OPENING      a socket that is being connected               CONNECTING, or IDLE
#   CONNECTING   CONNECT, then a SUBSCRIBE for each filter      UP: on_connect is called; or IDLE: on_error is
#   UP           the connection                                 CLOSING
#   CLOSING      no connection, on_disconnect is to be called   IDLE
#
# `_broken` is the error that ends the connection as soon as what goes on is over: a handler, or another task's turn.
# `_guard` (see states) tells an operation within another one from one after another that was interrupted.

import random
from binascii import crc32
from errno import ECONNABORTED, ETIMEDOUT

import inflight.counters as counters

from ..arguments import encode_name
from ..compat import const, of_bytes, passed, print_exception, ticks_add, ticks_diff, ticks_ms
from ..errors import refuse
from ..net.transport import Transport
from ..packet import PUBLISH, SUBACK, ProtocolError
from ..session.session import Session
from ..states import (
    CLOSING,
    CONNECTING,
    CONSUMER,
    GRANTED,
    IDLE,
    INTERRUPTED,
    OPEN,
    OPENING,
    OTHER_SESSION,
    OUTSIDE,
    POLL,
    READ,
    READING,
    RUNNING,
    SOME,
    UP,
    WRITE,
    WRITING,
)
from .subscriptions import Subscriptions

_PACE = const(256)  # bytes that a peer takes within a time-out, if it does not want to hold us up
_LONGEST_MS = const(0x1FFFFFFF)  # ticks of half a period and more seem to lie in the past

_BYTES = (bytes, bytearray, memoryview)
_LASTING = b"\x86\x87\x88\x89\x8a\x8c\x8e\x97\x9f\xa0"  # reason codes: trying again soon does not help
_MOST_ATTEMPTS = const(16)  # the pause behind them is the longest one


class Base(Subscriptions):
    """A client of the broker at `host`.

    client_id        str; at level 3: 1 to 23 characters; empty only with clean_session, or at level 5: the broker gives
                     one, which the journal keeps
    journal          Journal that makes QoS 1 and 2 durable, of no other client; None: publish at QoS 0 only
    port             default: 1883, or 8883 with tls; with a path 80, or 443 with tls
    tls              SSLContext that verifies the broker (CERT_REQUIRED)
    path             of a WebSocket at the broker ("/mqtt"); None: MQTT without WebSocket
    headers          {name: value}, added to the HTTP request for the WebSocket
    user, password   str or bytes; a password alone at level 5 only
    will             (topic, payload, qos, retain), published by the broker when the client vanishes; a fifth element
                     is what properties() made, for level 5
    keepalive        seconds, 0: off
    clean_session    True: messages that were sent do not survive a disconnection, messages that never left do
    protocol_level   5 (MQTT 5), 4 (MQTT 3.1.1) or 3 (MQTT 3.1); may be another one at the next start
    session_expiry   level 5: seconds for which the broker keeps the session without a connection; default: for ever
    slept            level 5: whole seconds asleep before this start: messages in the journal are older by these
    auth             level 5: Authentication, for brokers that ask for more than a password
    aliases          level 5: so many topics get an alias on each connection, if the broker takes any: messages to them
                     leave without their topic
    stall_ms         level 5: a message that the broker does not acknowledge for so long, though it answers a PINGREQ,
                     is sent again on a new connection; each time without progress it takes twice as long. At least
                     four times timeout_ms, a day at most; default: 60 s, or that, or never; 0: never
    connect_properties
                     level 5: what connect_properties.connect_properties() made, for more properties of CONNECT
    buffer           bytearray, default 1,024 bytes: one half receives, one sends; longer packets go in pieces
    max_inflight     messages of QoS 1 and 2 to the broker in flight, at most (64 at level 5, fewer if the broker wants)
    receive_maximum  messages of QoS 2 from the broker in flight, at most, fewer if the journal has no space for their
                     ids; at level 5 the broker is told
    when_full        what publish() does when the journal is full: None: raise OutboxFull; "oldest", "newest": drop
                     that message, counted, and on_error gets OutboxFull for the first one
    timeout_ms       how long a connect, a write or an answer may take; each byte that arrives gives an answer the
                     whole time again, ten times at most, behind messages longer than the buffer a hundred times
    retry_ms         ms until unanswered packets are repeated on the same connection; default: 20 s at level 3, 0
                     (never) at level 4; always 0 at level 5
    backoff_ms       (first, longest) pause between attempts to connect
    reconnect        False: connect() makes one connection; what ends it is raised, and no other one is made
    max_redeliveries how often a message of QoS 1 or 2 comes again after its handler raised: it is not acknowledged, the
                     connection ends, and the broker sends it on the next one. Default 0: it is acknowledged
    on_message       handler of messages without a handler of their own
    on_connect       called with session present (bool) when the connection stands and its subscriptions are made
    on_disconnect    called when that connection has ended, with the error, or None after disconnect(); default: an
                     error goes to on_error
    on_complete      called with the Message ID of a message of QoS 1 or 2 that the broker has completed
    on_error         called with any other error: of an attempt to connect, of a handler, of a subscription or a message
                     that the broker refused, a message that was damaged; default: print it

    Callbacks and handlers are plain functions. They may call publish() (with asyncio, in a task that they create), and
    nothing else of the client. The callbacks are attributes too, to be set later.

    Raises ValueError."""

    # False: there is no network, so no attempt to connect is made, but by connect() of the blocking client. When it is
    # True again one is made at once, and the pauses between attempts grow from the shortest again.
    online = True
    _failures: tuple = (Exception,)  # what a handler or callback may raise, and the client goes on

    # Of what _set_up() sets, that which others use.
    session: Session
    _topic: object
    _state: int
    _guard: int
    _last_error: Exception
    _transport: Transport
    _connected_at: int
    _broken: Exception
    _next_attempt: int
    _waiting_since: "Any"  # type: ignore[name-defined] # noqa: F821  since when an answer is waited for
    _closed = False  # disconnect() ended it
    _consumers: "Any" = None  # type: ignore[name-defined] # noqa: F821  of asyncio
    _held = 0  # SOME packets of the last read are not handled yet; PUBLISH: this one waits for consumers
    _requested = None  # what asyncio needs when the SUBACK has come
    _out_at = _out_left = 0  # bytes of session.view that the socket has not taken yet,
    _took = _writing_since = 0  # and how many it took since when

    def __init__(self, host, client_id="", journal=None, **options):
        arguments = self.configure(host, client_id, journal, **options)
        self._set_up(*arguments)

    # --- what it knows ---

    @property
    def connected(self):
        return self.session.connected

    @property
    def pending(self):
        """Messages of QoS 1 and 2 accepted but not yet completed by the broker."""
        return self.session.pending

    def is_pending(self, mid):
        """True if message `mid` (what publish() returned) has been neither completed by the broker nor given up
        (discard(), when_full, a clean session), also if it is from before a restart. A Message ID is used again after
        65,535 messages at the earliest."""
        if mid.__class__ is not int:
            refuse("mid", mid)
        before = self._guard
        try:
            self._begin(RUNNING)
            return self.session.is_pending(mid)
        finally:
            self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)

    def pending_messages(self):
        """An iterator over the pending messages, from the oldest on: (Message ID, sequence number, topic, size of the
        packet in bytes, QoS, state). state: "waiting", "in flight", or "set aside" (too long for this connection, or it
        ended others). Raises OSError if flash fails; RuntimeError."""
        return self._pending_messages()

    def _pending_messages(self):
        # Each message is one operation: between them everything may change.
        seq = 0
        while True:
            before = self._guard
            try:
                self._begin(RUNNING)
                found = self.session.next_message(seq)
            finally:
                self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)
            if not found:
                return
            yield found
            seq = found[1] + 1

    def retry(self):
        """Messages that were set aside are tried again as soon as all others are completed, and not after the pause."""
        if self.session.aside:
            self.session.aside.retry(self.session)

    def counters(self):
        """Everything that happened since the start, a dict."""
        from ..counters import by_name

        return by_name(self.session.count)

    def _end_of(self, ms, mid=0):
        # The ticks when so many ms will have passed, in which message `mid` is waited for.
        if mid.__class__ is not int:
            refuse("mid", mid)
        if ms.__class__ is not int or ms > _LONGEST_MS:
            refuse("ms", ms)
        return ticks_add(ticks_ms(), ms)

    # --- going out ---

    def _check(self, topic, qos, retain, properties):
        # Bad arguments are refused before a byte is written. The last topic is kept encoded.
        if (
            qos.__class__ is not int
            or not 0 <= qos <= 2
            or retain not in (False, True)
            or (qos and not self.session.journal)
        ):
            refuse("qos", qos, retain)
        if topic is not self._topic or self._topic is None:
            self._topic = None
            self.session.forget()
            self.session.name = encode_name(topic, self.session.protocol_level)
            self._topic = topic
        if self._attach:
            self._attach(properties, ticks_ms())
        elif properties is not None and not hasattr(properties, "block"):
            refuse("properties", properties)

    def _encode_payload(self, payload):
        if isinstance(payload, str):
            return payload.encode()
        if not isinstance(payload, _BYTES):
            refuse("payload", payload)
        return of_bytes(payload) if payload.__class__ is memoryview else payload

    # --- moving bytes ---

    def _write(self):
        # Writes what the socket takes. Returns True if nothing is left, and the buffer is free. Raises OSError, also if
        # it takes less than _PACE bytes in as long as the time-out.
        guard = self._guard
        if self._broken:
            raise self._broken
        if guard & WRITING or guard & (READING | OUTSIDE) == READING:
            raise OSError(ECONNABORTED, "interrupted: the client connects again")
        transport = self._transport
        if not transport:
            return True
        session = self.session
        self._guard = guard | WRITING
        n = self._out_left
        at = self._out_at
        while True:
            if not n:
                n = session.data_to_send(ticks_ms())
                if not n:
                    self._guard = guard
                    return True
                at = session.out_at
            done = transport.send(session.view, at, n)
            if done == n:
                n = self._out_left = 0
                continue
            done = done or 0
            self._took += done
            if not self._out_left or self._took >= _PACE:
                self._took = 0
                self._writing_since = ticks_ms()
            elif passed(ticks_ms(), self._writing_since, self._timeout_ms):
                raise OSError(ETIMEDOUT, "the broker stopped reading")
            self._out_at = at = at + done
            self._out_left = n = n - done
            if not done:
                self._guard = guard
                return False

    def _step(self):
        # Writes what is due, reads once, and handles what has come. Never waits. Returns what to wait for before the
        # next step, 0: nothing.
        session = self.session
        if not self._write():
            return WRITE
        self._guard |= READING
        need = READ
        if not self._held:
            n = self._transport.receive(session.into, session.space)
            if n:
                session.bytes_received(n, ticks_ms())
                self._held = SOME  # not a local variable: after an interrupt the next step has to know it
        while self._held:  # others count their time between two reads
            kind = self._held
            if kind == SOME:
                kind = 0 if session.code else session.next_event(ticks_ms())
            if kind == PUBLISH:
                if not self._deliver():
                    self._held = PUBLISH
                    need = CONSUMER
                    break
            elif session.completed:
                self._report_complete(session.completed)
            elif not kind:
                self._held = need = 0
                break
            elif self._requested:
                self._answered()
            self._held = SOME
            if PUBLISH < kind < SUBACK and not session.ack_due:
                continue  # what follows from acknowledgements leaves behind the last one: they share a sync
            self._guard &= ~READING
            if not self._write():
                need = WRITE
                break
            self._guard |= READING
        self._guard &= ~READING
        if not need and not self._write():
            need = WRITE
        if session.overdue(ticks_ms()):  # a broker may send without end, and never answer
            raise self.session.fault()
        return need

    def _deliver(self):
        # Returns True when the message is through.
        if self.session.deliver:
            began = ticks_ms()
            if not self._message:
                self._make_message()
            guard = self._guard
            try:
                self._leave()
                self._dispatch()
            finally:
                self._return(guard)
            now = ticks_ms()  # that was not the broker's time
            self._waiting_since = ticks_add(self._waiting_since, ticks_diff(now, began))
            self.session.paused(began, now)
        self.session.delivered()
        return True

    # --- what the application is told ---

    def _report_connect(self):
        # After the steps of connecting, whose modules are gone by now: the callback may need stack and heap.
        self._connected_at = ticks_ms()
        self._state = UP
        if self.on_connect:
            self._report(self.on_connect, self.session.present)

    def _begin(self, bits):
        # An operation begins, if none of these bits stands. Within `try`, whose `finally` puts RUNNING and OUTSIDE back
        # to what they were before, and calls nothing for that: an interrupt may come where a call begins.
        if self._guard & bits & RUNNING:
            raise RuntimeError("the client is busy: this call came within another one, repeat it later")
        if self._guard & bits:
            raise ValueError("only publish() can be called while a handler runs or the client waits")
        self._guard |= RUNNING

    def _leave(self):
        # A callback, or a wait, follows.
        self._guard = self._guard & INTERRUPTED | OUTSIDE

    def _return(self, guard):
        # It is over; `guard` is what was before.
        self._guard = self._guard & INTERRUPTED | guard & (RUNNING | OUTSIDE)

    def _report(self, callback, value):
        # Whatever a callback raises, the client goes on.
        guard = self._guard
        try:
            self._leave()
            callback(value)
        except self._failures as e:
            if callback is self.on_error:
                print_exception(e)
            else:
                self._report(self.on_error, e)
        finally:
            self._return(guard)

    def _report_end(self, error):
        # A connection or an attempt has ended; error None: because it was asked for.
        self._collect(None)  # a program that disconnects may make no other call
        self._last_error = error
        announced = self._state == CLOSING
        self._state = IDLE
        if announced and self.on_disconnect:
            self._report(self.on_disconnect, error)
        elif error and self._reconnect:  # else it is raised
            self._report(self.on_error, error)

    def _report_complete(self, mid):
        self.session.completed = 0
        if self.on_complete:
            self._report(self.on_complete, mid)

    def _collect(self, idle):
        # The end of a step; idle None: of a call, which tells the application what happened in it.
        session = self.session
        if idle is not None:
            session.collect(idle)
        while session.notices:
            notice = session.notices[0]
            session.notices = session.notices[1:]
            self._report(self.on_error, notice)

    # --- connecting again ---

    def _check_will(self, will):
        if will and (will is not True or self.session.protocol_level < 5):
            refuse("will", will)

    def _recover(self, error=None):
        # An operation was interrupted (Ctrl-C, no memory; error None), or the flash failed in it: the connection ends,
        # and what the journal holds is read anew. Raises OSError, also when it is called again.
        error = error or OSError(ECONNABORTED, "interrupted: the client connects again")
        self._drop_connection(error)
        if self.session.busy:
            self.session.recover()
        if self._state == CLOSING:
            self._report_end(error)

    def _connection_failed(self, error):
        # The connection is of no use any more; what is in flight stays in the journal.
        self._drop_connection(error)
        self._back_off(ticks_ms())
        self._report_end(error)

    def _close(self):
        # Called again, it does the rest of what an interrupt left.
        self._state = CLOSING if self._state >= UP else IDLE
        self.session.reset()
        self._broken = None
        self._held = 0
        self._out_left = 0
        if self._transport:
            self._transport.close()
            self._transport = None
        self._guard &= RUNNING

    def _drop_connection(self, error):
        self._broken = None
        self._guard &= ~READING  # what was read does not count any more: a DISCONNECT may still be written
        if self._transport and isinstance(error, (ProtocolError, MemoryError)):
            self._connected_at = None  # however long it lasted, the next pause is longer
            if isinstance(error, ProtocolError):  # once, also when connect() has told of it
                self.session.count[counters.PROTOCOL_ERRORS] += 1
        if self.connected:
            most = self.session.connection_lost(self, error)
            self._attempts = min(self._attempts, most)
        self._close()

    def _back_off(self, now):
        # Exponential back-off with full jitter: a fleet does not come back in step.
        first, longest = self._backoff_ms
        pause = min(longest, first << min(self._attempts, 16))
        if self._connected_at is not None and passed(now, self._connected_at, pause):
            # Only a connection that lasted begins anew: a broker may accept and close at once.
            self._attempts = 0
            pause = first
        self._connected_at = None
        self._attempts += 1
        # Boards without a source of randomness differ at least.
        salt = crc32(self.session.client_id) & 0xFFFFFF
        self._next_attempt = ticks_add(now, (random.getrandbits(24) ^ salt) % (pause + 1))

    def _attempt_due(self, now):
        if not self.online:
            self._attempts = 0
            self._next_attempt = now
            return False
        # What is due later than the longest pause was due more than half a period of the ticks ago.
        return not 0 < ticks_diff(self._next_attempt, now) <= max(self._backoff_ms)

    # --- the steps of connecting ---

    def _connect_steps(self):
        """Connecting as a sequence of steps, which each client takes in its own way. Every step but POLL gives the next
        polls a new time-out."""
        yield from self._steps()

    def _steps(self):
        session = self.session
        yield from self._open_steps()
        session.resume()
        if self._handlers:
            yield from self._subscribe_again_steps()

    def _open_steps(self):
        session = self.session
        if self._tls:
            from ..net.transport import check_tls

            check_tls(self._tls)
        silent = self._no_connack
        yield from self._call_steps()
        while session.code == OTHER_SESSION:
            from ..level5.connection5 import leave_other_session

            yield from leave_other_session(self)
            yield from self._call_steps()
        if session.code:
            self._no_connack = silent
            from ..session.refused import ConnectRefused

            self._slow_down(session.code)
            raise ConnectRefused(session.code, getattr(session, "reason", ""))
        for mid in session.ended:
            self._report_complete(mid)
        if silent or not session.present:
            # The broker has forgotten what it was asked for, or it may have said so in a CONNACK that never came. Else
            # it is part of the session [MQTT-3.1.2-4] [MQTT5-3.1.2-5].
            for h in self._handlers:
                h[GRANTED] = False
        self._no_connack = False  # not before: an interrupt above leaves filters that are asked for again

    def _slow_down(self, code):
        """The broker refused the connection, or ended it, with this code: the next pause may be the longest one. It
        begins now if there was no connection yet: connect() may be called at once. The attempt counts when it is
        over."""
        if code in _LASTING:
            self._attempts = _MOST_ATTEMPTS
            self._connected_at = None
        if self._state < UP:
            self._back_off(ticks_ms())
            self._attempts -= 1

    def _call_steps(self):
        # A connection, CONNECT and CONNACK.
        session = self.session
        self._state = OPENING
        yield OPEN
        self._state = CONNECTING
        if self._http_request:
            from ..net.websocket import upgrade_steps

            yield from upgrade_steps(self)
        session.connect(ticks_ms(), self._clean_session, self._keepalive, *self._login, self._will)
        self._no_connack = True
        while not (session.connected or session.code):
            yield POLL

    # --- how a client begins: its session, and its fields ---

    def _set_up(self, level_5, arguments):
        """What configure() returns: the arguments for level 5 alone, and those of a Session. Raises ValueError."""
        self._no_connack = False  # the last CONNECT had no answer
        self._topic = None  # the last topic published to; the session has it as bytes
        self._attach = None  # gives the next message its properties, at level 5
        if arguments[3] == 5:
            self._set_up_level_5(level_5, arguments)
        else:
            self.session = Session(*arguments)
        # Whether CONNECT fits the buffer shows now, not on the way.
        user, password = self._login
        self.session.put_connect(self._clean_session, self._keepalive, user, password, self._will)
        self._transport = None
        self._broken = None  # the error that ends the connection, after what goes on: a handler, or another task
        self._state = self._guard = 0  # see states
        self._last_error = None  # the error that ended the last connection, or attempt
        self._attempts = 0
        self._connected_at = None  # since when the connection stands
        self._next_attempt = ticks_ms()  # the time of the next attempt to connect

    def _set_up_level_5(self, level_5, arguments):
        from ..level5.connection5 import LONGEST_STALL_MS, check

        session_expiry, slept, auth, aliases, stall_ms, connect_properties = level_5
        _, max_inflight, _, _, retry_ms, _, timeout_ms = arguments[3:]
        if stall_ms is None:
            stall_ms = max(60_000, 4 * timeout_ms)
            if stall_ms > LONGEST_STALL_MS:
                stall_ms = 0
        clean_session = self._clean_session
        check(session_expiry, clean_session, stall_ms, max_inflight, retry_ms, timeout_ms)
        self.session = new_session(session_expiry, clean_session, slept, stall_ms, *arguments)
        self._attach = self.session.attach
        if connect_properties is not None:
            from ..level5.properties5 import attach_to_connect

            attach_to_connect(self.session, connect_properties)
        if aliases:
            from ..level5.aliases5 import Aliases

            self.session.aliases = Aliases(aliases)
        if auth is not None:
            auth.attach(self.session)


def new_session(session_expiry, clean_session, slept, stall_ms, journal, buffer, name, *settings):
    from ..level5.mqtt5 import Session5

    given = {"adopt": not (name or clean_session), "session_expiry": session_expiry or 0xFFFFFFFF, "stall_ms": stall_ms}
    made = Session5(journal, buffer, name, *settings, **given)
    if journal and journal.live:
        from ..level5.stored5 import check_space

        check_space(made, len(made.out))
    if made.clock:
        made.clock.add(slept)
    return made
