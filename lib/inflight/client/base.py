# What the blocking and the asyncio client share: arguments, handlers, back-off. No I/O.

import random
from binascii import crc32
from errno import ECONNABORTED

import inflight.counters as counters

from ..compat import const, of_bytes, passed, print_exception, ticks_add, ticks_diff, ticks_ms
from ..errors import refuse
from ..packet import ProtocolError
from ..session.session import Session
from ..states import INTERRUPTED, OUTSIDE, RUNNING
from ..topic import encode_name

_LONGEST_MS = const(0x1FFFFFFF)  # ticks of half a period and more seem to lie in the past

_BYTES = (bytes, bytearray, memoryview)


class Base:
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
    receive_maximum  messages of QoS 2 from the broker in flight, at most; at level 5 the broker is told
    when_full        what publish() does when the journal is full: None: raise OutboxFull; "oldest", "newest": drop
                     that message, counted
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
    nothing else of the client. on_connect, on_disconnect, on_complete and on_error are attributes too, to be set later.

    Raises ValueError."""

    _failures: tuple = (Exception,)  # what a handler or callback may raise, and the client goes on

    # Of what options and client_start set, that which others use.
    session: Session
    _host: str
    _port: int
    _tls: object
    _timeout_ms: int
    _reconnect: bool
    _clean_session: bool
    _on_message: object
    on_error: object
    _handlers: list
    _topic: object
    _state: int
    _connect_reported: bool
    _last_error: Exception
    _connected_at: int
    _pending_error: Exception
    _next_attempt: int

    def __init__(self, host, client_id="", journal=None, **options):
        self._set_up(*self._configure(host, client_id, journal, **options))

    # Two functions: what each of them loads need not be there together.

    def _configure(self, *arguments, **options):
        from .options import configure

        return configure(self, *arguments, **options)

    def _set_up(self, *arguments):
        from .client_start import start

        start(self, *arguments)

    def _connect_steps(self):
        # See handshake.
        from .handshake import steps

        yield from steps(self)

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
        self._begin(RUNNING)
        try:
            return self.session.is_pending(mid)
        finally:
            self._state &= ~RUNNING

    def pending_messages(self):
        """An iterator over the pending messages, from the oldest on: (Message ID, sequence number, topic, size of the
        packet in bytes, QoS, state). state: "waiting", "in flight", or "set aside" (too long for this connection, or it
        ended others). Raises OSError if flash fails; RuntimeError."""
        from ..session.pending import messages

        return messages(self)

    def counters(self):
        """Everything that happened since the start, a dict."""
        from ..counter_names import by_name

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

    def _load_dispatching(self):
        # With the first message. It stays.
        from .dispatching import Message, dispatch

        self._dispatch = dispatch
        if self.session.protocol_level < 5:
            self._message = Message(self.session)
        else:
            from .message5 import Message5

            self._message = Message5(self)

    # --- what the application is told ---

    def _report_connect(self):
        # After the steps of connecting, whose modules are gone by now: the callback may need stack and heap.
        self._connected_at = ticks_ms()
        self._connect_reported = True
        if self.on_connect:
            self._report(self.on_connect, self.session.present)

    def _begin(self, bits):
        # An operation begins, if none of these bits stands: `try` follows, and sets RUNNING off.
        if self._state & bits & RUNNING:
            raise RuntimeError("the client is busy: this call came within another one, repeat it later")
        if self._state & bits:
            raise ValueError("only publish() can be called while a handler runs or the client waits")
        self._state |= RUNNING

    def _leave(self):
        # A callback, or a wait, follows.
        self._state = self._state & INTERRUPTED | OUTSIDE

    def _return(self, state):
        # It is over; `state` is what was before.
        self._state = self._state & INTERRUPTED | state & (RUNNING | OUTSIDE)

    def _report(self, callback, value):
        # Whatever a callback raises, the client goes on.
        state = self._state
        try:
            self._leave()
            callback(value)
        except self._failures as e:
            if callback is self.on_error:
                print_exception(e)
            else:
                self._report(self.on_error, e)
        finally:
            self._return(state)

    def _report_end(self, error):
        # A connection or an attempt has ended; error None: because it was asked for.
        self._last_error = error
        announced = self._connect_reported
        self._connect_reported = False
        if announced and self.on_disconnect:
            self._report(self.on_disconnect, error)
        elif error and self._reconnect:  # else it is raised
            self._report(self.on_error, error)

    def _report_complete(self, mid):
        self.session.completed = 0
        if self.on_complete:
            self._report(self.on_complete, mid)

    def _collect(self, idle):
        # The end of a step.
        session = self.session
        session.collect(idle)
        while session.notices:
            notice = session.notices[0]
            session.notices = session.notices[1:]
            self._report(self.on_error, notice)

    # --- connecting again ---

    def _check_will(self, will):
        if will and (will is not True or self.session.protocol_level < 5):
            refuse("will", will)

    def _send_disconnect(self, will=False):
        # DISCONNECT, then nothing more is sent [MQTT-3.14.4-1, 3.14.4-2].
        self.session.disconnect(4 if will else 0)
        self._flush()
        self._close()

    def _recover(self, error=None):
        # An operation was interrupted (Ctrl-C, no memory; error None), or the flash failed in it: the connection ends,
        # and what the journal holds is read anew. Raises OSError, also when it is called again.
        error = error or OSError(ECONNABORTED, "an operation was interrupted")
        self._drop_connection(error)
        if self.session.busy:
            self.session.recover()
        if self._connect_reported:
            self._report_end(error)

    def _connection_failed(self, error):
        # The connection is of no use any more; what is in flight stays in the journal.
        self._drop_connection(error)
        self._back_off(ticks_ms())
        self._report_end(error)

    def _drop_connection(self, error):
        if self._transport and isinstance(error, ProtocolError):  # once, also when connect() has told of it
            self.session.count[counters.PROTOCOL_ERRORS] += 1
            self._connected_at = None  # however long it lasted, the next pause is longer
        if self.connected:
            self.session.connection_lost(self, error)
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
        # What is due later than the longest pause was due more than half a period of the ticks ago.
        return not 0 < ticks_diff(self._next_attempt, now) <= max(self._backoff_ms)
