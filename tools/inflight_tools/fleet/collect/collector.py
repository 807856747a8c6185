"""The collector: from a broker into landing files, without loss.

Acknowledgement
---------------
A message is acknowledged after its line is durable (fsync) in the spool. The spool becomes a landing file, even if this
process or its machine stops. The broker sends unacknowledged messages again to the same client id, since the session is
persistent. So no message is lost; after a crash some are in the landing files twice.

The loop
--------
One thread reads what the network has, writes it with one write and one fsync, acknowledges it in the order of receipt,
and repeats.
- The slower the disk, the larger the batches.
- Only the current batch is in memory.
- While the disk is full, nothing is read, and the broker keeps the messages.

Markers
-------
At an interval the collector publishes a marker, to which only it subscribes. A broker keeps the order of a session. So
when the marker comes back and lands, all that the session had before it has landed: a message that the broker had
acknowledged by then, and that is in no landing file, is lost. A broker that refuses the topic of markers costs this
proof, and no message.

A marker tells which start of a collector has sent it, and its number since then. Markers are retained, and before the
first one of a connection the collector asks for the retained one: so another collector with the same name, which took
this one's session and messages over meanwhile, is found out.

Levels
------
At level 5 the lines keep the properties of messages, and the broker says why it ends a connection. All else is as at
level 4: the broker keeps the session for ever (if it wants to). A session may go on at the other level. There is no
fall-back: a broker without level 5 is an error that says so.

Long messages
-------------
Any sender may publish 256 MB.
- At level 4 a broker sends them until they are acknowledged. So a long payload is read and not kept: its beginning
  lands, marked. Of a WebSocket Paho keeps a whole frame, so there a message of more than 16 MiB ends the connection.
- At level 5 the collector announces a Maximum Packet Size of a MiB more than the longest payload, for topic and
  properties. The broker drops what is longer; if it sends it all the same, the connection ends.

Names
-----
The broker keeps a session for each name, with its subscriptions. So another root or group needs another name. A group
member that is offline still gets its share; the broker keeps the share until the member connects again. So restart
each member: if one never returns, its share is lost.
"""

import contextlib
import json
import os
import random
import select
import socket
import ssl
import time

import paho.mqtt.client as paho

from inflight_tools.client import HEAD, BoundedClient
from inflight_tools.fleet.collect.client5 import FOR_EVER, Client5
from inflight_tools.fleet.collect.counters import Counters, save, sentence
from inflight_tools.fleet.collect.received import Batch
from inflight_tools.visible import visible

KINDS = ("telemetry", "status", "health", "log", "release", "reply/#", "actuator/#")
_KEEPALIVE_S = 60
_BACKOFF_S = 0.2, 30  # shortest and longest
_STABLE_S = 10  # a shorter connection is a short one
_SHORT_LIMIT = 3  # that many short connections in a row suggest two clients with one client id
_DISK_RETRY_S = 1.0
_DISK_FAILED = "cannot write to the landing folder ({}): free space on the disk; nothing is acknowledged until then"
_SHORT_SESSION = (
    "the broker at {} keeps a session without a connection for {} s only: if this collector is away for longer, what "
    "devices publish meanwhile is lost"
)
_CLOSE_TIMEOUT_S = 5
_PROPERTIES = 1 << 20  # bytes of a message of level 5 beside its payload
# Reason codes of MQTT 5, to which Paho translates the return codes of level 4.
_WRONG_LEVEL = 0x84
_TEMPORARY = (0x88, 0x89, 0x97, 0x9F)  # in a CONNACK: unavailable, busy, a quota, too many connections
_TAKEN_OVER = 0x8E


class Refused(Exception):
    """The broker refuses the collector permanently."""


class NotWritten(Exception):
    """The collector was stopped while it could not write to the disk."""


def marker_topic(root, name):
    """The topic of the markers of the collector `name`."""
    return f"{root}/{name}/collector"


def _told(reason, properties):
    """A reason code in words, with what the broker says of it."""
    more = getattr(properties, "ReasonString", "")
    return visible(f"{reason} ({more})" if more else str(reason))


def filters(root, share=None):
    """The collector's topic filters. The members of the group `share` share the messages."""
    group = f"$share/{share}/" if share else ""
    return [f"{group}{root}/+/{kind}" for kind in KINDS]


class Collector:
    """Collects from `broker` (a broker.Broker) into `spool` with the client id `name`, until stop(). Payloads
    are cut to `max_payload` bytes. Every `report` seconds the counters go to `say` and to the file `figures`; every
    `marker` seconds a marker is sent, never if it is 0. tell: a function that gets the counters, a dict, in place of
    `say`. level: 4, MQTT 3.1.1, or 5."""

    def __init__(
        self,
        broker,
        name,
        spool,
        say,
        figures,
        share=None,
        max_payload=1 << 20,
        report=10.0,
        marker=60.0,
        tell=None,
        level=4,
    ):
        self._level = level
        self._broker, self._name, self._spool, self._say = broker, name, spool, say
        self._tell = tell or (lambda figures: say(sentence(figures)))
        self._filters = filters(broker.root, share)
        self._marker_topic = marker_topic(broker.root, name)
        self._marker_interval, self._next_marker = marker, time.monotonic() + marker
        self._marks = False  # the broker grants the topic of markers
        self._marked, self._retain = 0, True  # how many were sent; whether the broker retains messages
        self._asked = ()  # topic filters of the last SUBSCRIBE
        self._look = False  # whether to ask for the retained marker before the next one
        self._figures, self._interval, self._next_report = figures, report, time.monotonic() + report
        self.counters = Counters(name)
        self._batch = Batch(name, max_payload, self.counters)
        self._longest = max_payload + (_PROPERTIES if level == 5 else HEAD)
        self._reported = {}  # the last error reported about "broker", "disk" and "file"
        self._detail = ""  # why a connection failed or ended, as Paho or the broker tells
        self._refused = None
        self._connected = self._subscribed = False
        self._backoff, self._connected_at, self._short = _BACKOFF_S[0], 0.0, 0
        self._retry_roll = 0.0
        self._stopping = False
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._client = self._new_client()

    def _new_client(self):
        kind, session = (Client5, {}) if self._level == 5 else (BoundedClient, {"clean_session": False})
        client = kind(
            paho.CallbackAPIVersion.VERSION2,
            self._name,
            **session,
            longest=self._longest,
            manual_ack=True,
            reconnect_on_failure=False,  # it would retry with MQTT 3.1
            transport="websockets" if self._broker.path else "tcp",
        )
        if self._broker.path:
            client.ws_set_options(path=self._broker.path)
        if self._broker.user:
            client.username_pw_set(self._broker.user, self._broker.password)
        if self._broker.tls:
            client.tls_set_context(self._broker.tls)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        client.on_message = lambda _, userdata, message: self._batch.add(message, client.dropped)
        client.on_socket_register_write = lambda *_: None  # without it Paho writes each acknowledgement on its own
        return client

    @property
    def connected(self):
        return self._connected

    @property
    def files(self):
        """How many landing files were finished."""
        return self._spool.files

    def stop(self):
        """Makes run() return. A signal handler may call it."""
        self._stopping = True
        with contextlib.suppress(BlockingIOError):
            self._waker.send(b"x")

    def run(self):
        """Runs until stop(). Raises Refused; NotWritten if messages could not be written."""
        try:
            while not self._stopping:
                if self._connect():
                    self._loop()
        finally:
            self._close()

    # --- the connection ---

    def _connect(self):
        self._client.on_log = self._on_log
        self._client.trouble = ""
        try:
            self._client.connect(self._broker.host, self._broker.port, _KEEPALIVE_S)
            return True
        except ssl.SSLCertVerificationError as e:
            raise Refused(
                f"the certificate of the broker at {self._broker.place} is not trusted ({e.verify_message}): "
                "give the CA that signed it, and the host name that it contains"
            ) from None
        except OSError as e:
            self._retry_later(e.strerror or str(e))
            return False

    def _retry_later(self, why):
        """Reports the reason once, and waits: exponential back-off with jitter."""
        self._say_once("broker", f"no connection to the broker at {self._broker.place} ({why}); retrying")
        self._wait(self._backoff * random.uniform(0.5, 1))
        self._backoff = min(2 * self._backoff, _BACKOFF_S[1])

    def _loop(self):
        """Runs until the connection ends or stop() is called."""
        client = self._client
        more = False
        while not self._stopping and (sock := client.socket()):
            writers = [sock] if client.want_write() else []
            ready, _, _ = select.select([sock, self._wake], writers, [], 0 if more else 0.5)
            more = self._read() if more or sock in ready else False
            self._store()
            client.loop_write()
            client.loop_misc()
            if self._refused:
                raise Refused(self._refused)
            self._periodic()
        if not self._stopping:
            self._disconnected()

    def _disconnected(self):
        self._client.forget()  # an old marker must not replace the retained one of another collector
        why = self._client.trouble or self._detail or "connection lost"
        if self._level == 5 and not self._client.answered:
            why += "; does it take MQTT 5? Without it: --protocol-level 4"
        if self._connected:
            self._connected = False
            self.counters.reconnects += 1
            if time.monotonic() - self._connected_at >= _STABLE_S:
                self._short, self._backoff = 0, _BACKOFF_S[0]
            else:
                self._short += 1
            if self._short >= _SHORT_LIMIT:
                why += f"; repeatedly: is there another client named {self._name}?"
        self._retry_later(why)

    def _read(self):
        """Reads available messages into the batch. Returns True if more may be available."""
        client = self._client
        while not self._batch.full:
            before = len(self._batch)
            if client.loop_read():
                return False
            if len(self._batch) == before:  # no data, an incomplete packet, or no PUBLISH
                pending = getattr(client.socket(), "pending", None)  # TLS has data that select() does not see
                return bool(pending and pending())
        return True

    def _on_log(self, client, userdata, level, text):
        if level == paho.MQTT_LOG_ERR:
            self._detail = text.removeprefix("failed to receive on socket: ")

    def _on_disconnect(self, client, userdata, flags, reason, properties):
        if flags.is_disconnect_packet_from_server:
            self._detail = _told(reason, properties)
            if reason.value == _TAKEN_OVER:
                self._detail += f": is there another client named {self._name}?"

    def _on_connect(self, client, userdata, flags, reason, properties):
        if reason.is_failure:
            who = f"user {self._broker.user}" if self._broker.user else "a client without a user name"
            if reason.value in _TEMPORARY:
                self._detail = _told(reason, properties)
            elif reason.value == _WRONG_LEVEL and self._level == 5:
                self._refused = f"the broker at {self._broker.place} does not take MQTT 5: use --protocol-level 4"
            else:
                self._refused = f"the broker at {self._broker.place} refuses {who}: {_told(reason, properties)}"
            return
        client.on_log = None  # Paho would call it for each message
        self._detail = ""
        self._connected, self._connected_at = True, time.monotonic()
        if (kept := getattr(properties, "SessionExpiryInterval", FOR_EVER)) < FOR_EVER:
            self._say_once("session", _SHORT_SESSION.format(self._broker.place, kept))
        self._retain = getattr(properties, "RetainAvailable", 1) == 1
        # With session present the broker has the subscriptions. A new SUBSCRIBE would deliver all retained messages.
        self._look = flags.session_present and self._subscribed
        if not self._look:
            self._subscribed = False
            self._marks = bool(self._marker_interval)
            self._subscribe(*self._filters, *([self._marker_topic] if self._marks else ()))
        else:
            self._ready()

    def _subscribe(self, *filters):
        self._asked = filters
        self._client.subscribe([(name, 1) for name in filters])

    def _on_subscribe(self, client, userdata, mid, reasons, properties):
        for name, reason in zip(self._asked, reasons, strict=False):
            if reason.value == 1:
                continue
            if name == self._marker_topic:
                self._marks = False
                self._say_once("marker", f"the broker refuses {name}: losses behind it cannot be proved")
            else:
                answer = "refuses it" if reason.is_failure else "grants QoS 0 only, which may lose messages"
                self._refused = f"subscription to {name}: the broker at {self._broker.place} {answer}"
                return
        if self._subscribed:  # asked for the retained marker
            self._mark()
        else:
            self._subscribed = True
            self._ready()

    def _mark(self):
        """Sends a marker. It goes to the end of what the broker has for this session."""
        if not self._marks:
            return
        self._marked += 1
        marker = {"sent": time.time_ns() // 1_000_000, "run": self._spool.started, "n": self._marked}
        self._client.publish(self._marker_topic, json.dumps(marker), 1, self._retain)

    def _ready(self):
        self._reported.pop("broker", None)
        self._say(f"connected to the broker at {self._broker.place}")

    # --- the messages ---

    def _store(self):
        """Makes the batch durable. Then acknowledges it, if its connection still exists."""
        batch, client = self._batch, self._client
        if not batch:
            return
        data = batch.data()
        while not self._written(data):
            if self._stopping:
                raise NotWritten(f"{len(batch)} messages are not written: the broker will send them again")
            self._wait(_DISK_RETRY_S)
            client.loop_misc()  # keep alive
        if client.socket():
            for mid in batch.ids:
                client.ack(mid, 1)
            client.loop_write()
        self.counters.acknowledged(batch.received)
        batch.clear()

    def _written(self, data):
        try:
            self._spool.append(data)
        except OSError as e:
            self._failed("disk", _DISK_FAILED, e)
            # The next attempt gets a new file, in case this one is at a size limit.
            with contextlib.suppress(OSError):
                self._spool.roll()
            return False
        if self._reported.pop("disk", None):
            self._say("the landing folder can be written again")
        return True

    def _roll(self):
        try:
            self._spool.roll()
            self._reported.pop("file", None)
        except OSError as e:
            self._retry_roll = time.monotonic() + _DISK_RETRY_S
            self._failed("file", "cannot finish a landing file ({}): retrying", e)

    def _failed(self, what, text, error):
        self.counters.errors += 1
        self._say_once(what, text.format(error.strerror or error))

    # --- reports and waiting ---

    def _periodic(self):
        now = time.monotonic()
        if now >= self._retry_roll and self._spool.due():
            self._roll()
        if now >= self._next_marker and self._marks and self._connected:
            self._next_marker = now + self._marker_interval
            if self._look:
                self._look = False
                self._subscribe(self._marker_topic)
            else:
                self._mark()
        if now >= self._next_report:
            self._next_report = now + self._interval
            self._report()

    def _report(self):
        figures = self.counters.report(self._spool.files, self._connected)
        self._tell(figures)
        with contextlib.suppress(OSError):  # a full disk was reported already
            save(self._figures, figures)

    def _say_once(self, what, text):
        if self._reported.get(what) != text:
            self._reported[what] = text
            self._say(text)

    def _wait(self, seconds):
        """Waits, at most until stop(). Rolls and reports meanwhile."""
        end = time.monotonic() + seconds
        while not self._stopping and (left := end - time.monotonic()) > 0:
            select.select([self._wake], [], [], min(left, 0.5))
            self._periodic()

    def _close(self):
        """Sends the last acknowledgements and DISCONNECT, and finishes the last file."""
        if self._client.socket():
            self._disconnect(self._client.socket())
        self._connected = False
        try:
            self._spool.close()
        except OSError as e:
            self._failed("file", "cannot finish a landing file ({}): the next start will", e)
        self._report()
        self._wake.close()
        self._waker.close()

    def _disconnect(self, sock):
        """Sends DISCONNECT, and reads until the broker closes the connection: closing a socket with unread data resets
        it, and acknowledgements in flight would be lost."""
        client, end = self._client, time.monotonic() + _CLOSE_TIMEOUT_S
        with socket.socket(fileno=os.dup(sock.fileno())) as copy, contextlib.suppress(OSError):
            client.disconnect()
            while client.socket() and client.want_write() and time.monotonic() < end:
                select.select([], [copy], [], 0.1)
                client.loop_write()
            copy.shutdown(socket.SHUT_WR)
            copy.settimeout(_CLOSE_TIMEOUT_S)
            while copy.recv(65536) and time.monotonic() < end:
                pass
