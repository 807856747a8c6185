"""The collector: from a broker into landing files, losing nothing.

The rule of acknowledgement: a message is acknowledged only when its line is durable (fsync) in the spool, which becomes
a landing file whatever happens to this process or its machine. What was not acknowledged the broker sends again, to the
same client id, for its session is persistent. So nothing is lost, and after a crash some of it stands there twice.

One thread does it all: it reads what the network has, writes that with one write and one fsync, acknowledges it in
the order of receipt, and reads on. Batches thus form by themselves, larger ones with a slower disk; nothing but the
batch at hand is in memory; and while the disk is full nobody reads, so the broker keeps the messages.

The broker keeps a session for each name, with what that name has once subscribed to. So a name is for ever: another
root or group takes another name. In a group a member that is away still gets its share, which waits until it is back:
start it again, always. Whoever gives one up for good loses the share that waits for it.
"""

import contextlib
import os
import random
import select
import socket
import ssl
import time

import paho.mqtt.client as paho

from inflight_tools.fleet.collect.batch import Batch
from inflight_tools.fleet.collect.counters import Counters, save, sentence

KINDS = ("telemetry", "status", "health", "reply/#")
_KEEPALIVE_S = 60
_PAUSE_S = 0.2, 30  # first and longest pause between attempts to connect
_LONG_S, _SUSPICIOUS = 10, 3  # so many short connections in a row: two clients with one client id
_DISK_PAUSE_S = 1.0
_DISK_FAILED = "cannot write to the landing folder ({}): make room; nothing is acknowledged until then"
_LAST_WORDS_S = 5
_UNAVAILABLE = 136  # the only temporary refusal in a CONNACK


class Refused(Exception):
    """The broker refuses the collector permanently."""


class NotWritten(Exception):
    """It was stopped while the disk could not be written."""


def filters(root, share=None):
    """The collector's subscriptions; the members of a group `share` share the messages."""
    group = f"$share/{share}/" if share else ""
    return [f"{group}{root}/+/{kind}" for kind in KINDS]


class Collector:
    """Collects from `broker` (a device.broker.Broker) into `spool` as the client `name`, until stop(). Payloads are
    cut to `most` bytes. Every `report` seconds the counters go to `say`, and to the file `figures`."""

    def __init__(self, broker, name, spool, say, figures, share=None, most=1 << 20, report=10.0):
        self._broker, self._name, self._spool, self._say = broker, name, spool, say
        self._filters = filters(broker.root, share)
        self._figures, self._every, self._next_report = figures, report, time.monotonic() + report
        self.counters = Counters(name)
        self._batch = Batch(name, most, self.counters)
        self._trouble = {}  # the last reports about "broker", "disk" and "file"
        self._detail = ""  # paho's reason of a failed connection
        self._refused = None
        self._connected = self._subscribed = False
        self._pause, self._since, self._short = _PAUSE_S[0], 0.0, 0
        self._retry_roll = 0.0
        self._stopping = False
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._client = self._made_client()

    def _made_client(self):
        client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            self._name,
            clean_session=False,
            manual_ack=True,
            reconnect_on_failure=False,  # it would retry with MQTT 3.1
        )
        if self._broker.user:
            client.username_pw_set(self._broker.user, self._broker.password)
        if self._broker.tls:
            client.tls_set_context(self._broker.tls)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = lambda client, userdata, message: self._batch.add(message)
        client.on_socket_register_write = lambda *_: None  # otherwise each acknowledgement is a write of its own
        return client

    def stop(self):
        """Makes run() end in an orderly way. A signal handler may call it."""
        self._stopping = True
        with contextlib.suppress(BlockingIOError):
            self._waker.send(b"x")

    def run(self):
        """Runs until stop(). Raises Refused, and NotWritten if it ends with messages that could not be written."""
        try:
            while not self._stopping:
                if self._connect():
                    self._serve()
        finally:
            self._leave()

    # --- the connection ---

    def _connect(self):
        self._client.on_log = self._on_log
        try:
            self._client.connect(self._broker.host, self._broker.port, _KEEPALIVE_S)
            return True
        except ssl.SSLCertVerificationError as e:
            raise Refused(
                f"the certificate of the broker at {self._broker.place} is not to be trusted ({e.verify_message}): "
                "name the CA that signed it, and the host as the certificate does"
            ) from None
        except OSError as e:
            self._lost(e.strerror or str(e))
            return False

    def _lost(self, why):
        """Reports it once, and waits: longer each time, with jitter."""
        self._mention("broker", f"no connection to the broker at {self._broker.place} ({why}); trying again for ever")
        self._wait(self._pause * random.uniform(0.5, 1))
        self._pause = min(2 * self._pause, _PAUSE_S[1])

    def _serve(self):
        """Runs until the connection ends, or stop()."""
        client = self._client
        more = False
        while not self._stopping and (sock := client.socket()):
            writers = [sock] if client.want_write() else []
            ready, _, _ = select.select([sock, self._wake], writers, [], 0 if more else 0.5)
            more = self._read() if more or sock in ready else False
            self._keep()
            client.loop_write()
            client.loop_misc()
            if self._refused:
                raise Refused(self._refused)
            self._now_and_then()
        if not self._stopping:
            self._broken()

    def _broken(self):
        why = self._detail or "connection lost"
        if self._connected:
            self._connected = False
            self.counters.reconnects += 1
            if time.monotonic() - self._since >= _LONG_S:
                self._short, self._pause = 0, _PAUSE_S[0]
            else:
                self._short += 1
            if self._short >= _SUSPICIOUS:
                why += f"; time and again: is there another client named {self._name}?"
        self._lost(why)

    def _read(self):
        """Reads available messages into the batch. True if there are, or may be, more than it holds."""
        client = self._client
        while not self._batch.full:
            before = len(self._batch)
            if client.loop_read():
                return False
            if len(self._batch) == before:  # no data, an incomplete message, or no message
                pending = getattr(
                    client.socket(), "pending", None
                )  # data that TLS has read ahead, which select() does not see
                return bool(pending and pending())
        return True

    def _on_log(self, client, userdata, level, text):
        if level == paho.MQTT_LOG_ERR:
            self._detail = text.removeprefix("failed to receive on socket: ")

    def _on_connect(self, client, userdata, flags, reason, properties):
        if reason.is_failure:
            who = f"user {self._broker.user}" if self._broker.user else "a client without a user name"
            if reason.value == _UNAVAILABLE:
                self._detail = str(reason)
            else:
                self._refused = f"the broker at {self._broker.place} refuses {who}: {reason}"
            return
        client.on_log = None  # it costs time for each message
        self._detail = ""
        self._connected, self._since = True, time.monotonic()
        # A present session has the subscriptions; subscribing again would deliver all retained messages again.
        if not (flags.session_present and self._subscribed):
            self._subscribed = False
            client.subscribe([(name, 1) for name in self._filters])
        else:
            self._is_back()

    def _on_subscribe(self, client, userdata, mid, reasons, properties):
        for name, reason in zip(self._filters, reasons, strict=False):
            if reason.value != 1:
                said = "refuses it" if reason.is_failure else "grants it at QoS 0 only, which promises nothing"
                self._refused = f"subscription to {name}: the broker at {self._broker.place} {said}"
                return
        self._subscribed = True
        self._is_back()

    def _is_back(self):
        self._trouble.pop("broker", None)
        self._say(f"connected to the broker at {self._broker.place}")

    # --- the messages ---

    def _keep(self):
        """Makes the batch durable, then acknowledges it if its connection still exists."""
        batch, client = self._batch, self._client
        if not batch:
            return
        data = batch.data()
        while not self._written(data):
            if self._stopping:
                raise NotWritten(f"{len(batch)} messages are not written: the broker will send them again")
            self._wait(_DISK_PAUSE_S)
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
            # Finishes the durable part, and gives the next attempt a new file, in case this one is at a limit.
            with contextlib.suppress(OSError):
                self._spool.roll()
            return False
        if self._trouble.pop("disk", None):
            self._say("the disk takes messages again")
        return True

    def _roll(self):
        try:
            self._spool.roll()
            self._trouble.pop("file", None)
        except OSError as e:
            self._retry_roll = time.monotonic() + _DISK_PAUSE_S
            self._failed("file", "cannot finish a landing file ({}): it goes on as a spool", e)

    def _failed(self, what, said, error):
        self.counters.errors += 1
        self._mention(what, said.format(error.strerror or error))

    # --- reports and waiting ---

    def _now_and_then(self):
        now = time.monotonic()
        if now >= self._retry_roll and self._spool.due():
            self._roll()
        if now >= self._next_report:
            self._next_report = now + self._every
            self._report()

    def _report(self):
        figures = self.counters.report(self._spool.files, self._connected)
        self._say(sentence(figures))
        with contextlib.suppress(OSError):  # a full disk was reported already
            save(self._figures, figures)

    def _mention(self, what, trouble):
        if self._trouble.get(what) != trouble:
            self._trouble[what] = trouble
            self._say(trouble)

    def _wait(self, seconds):
        """Waits, at most until stop(), and meanwhile does what is due."""
        end = time.monotonic() + seconds
        while not self._stopping and (left := end - time.monotonic()) > 0:
            select.select([self._wake], [], [], min(left, 0.5))
            self._now_and_then()

    def _leave(self):
        """Sends the last acknowledgements and DISCONNECT, and finishes the last file."""
        if self._client.socket():
            self._goodbye(self._client.socket())
        self._connected = False
        try:
            self._spool.close()
        except OSError as e:
            self._failed("file", "cannot finish a landing file ({}): the next start will", e)
        self._report()
        self._wake.close()
        self._waker.close()

    def _goodbye(self, sock):
        """Closing a socket with unread data resets it, and acknowledgements in flight are lost. So a copy of it is
        read until the broker closes its end."""
        client, end = self._client, time.monotonic() + _LAST_WORDS_S
        with socket.socket(fileno=os.dup(sock.fileno())) as copy, contextlib.suppress(OSError):
            client.disconnect()
            while client.socket() and client.want_write() and time.monotonic() < end:
                select.select([], [copy], [], 0.1)
                client.loop_write()
            copy.shutdown(socket.SHUT_WR)
            copy.settimeout(_LAST_WORDS_S)
            while copy.recv(65536) and time.monotonic() < end:
                pass
