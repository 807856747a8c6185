"""Brokers on a loopback socket for tests of the client: `Broker` plays a script, `Automatic` is a complete broker with
optional faults.

Both use tools/reference and nothing of lib/. They check every packet of the client, whatever the test is about. Every
wait has a time-out; if a script fails, its test fails."""

import contextlib
import select
import socket
import struct
import threading
import time

from tools.reference import server
from tools.reference.kinds import (
    CONNECT,
    DISCONNECT,
    NAMES,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBSCRIBE,
)
from tools.reference.oracle import OTHER, Finding, JudgedSession
from tools.reference.properties import block
from tools.reference.wire import Stream, Violation, connack, pingresp, puback, pubcomp, publish, pubrec, pubrel, suback

PATIENCE_S = 240  # how long a script waits for the client; long, since the machine may be busy


class Gone(Exception):
    """The client closed the connection, or it broke."""


class Connection:
    """A connection of the client, with all bytes and packets received, and all bytes sent."""

    def __init__(self, sock):
        self.sock = sock
        self.received = bytearray()
        self.sent = bytearray()
        self.packets = []
        self._stream = Stream()
        sock.settimeout(PATIENCE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fill(self, most=65536):
        """Reads at least one byte; raises Gone at the end of the connection."""
        try:
            data = self._recv(most)
        except TimeoutError:
            raise Violation(f"the client sent nothing for {PATIENCE_S} s; so far {self.packets}") from None
        except OSError:
            data = b""
        if not data:
            raise Gone("inside a packet" if self._stream.incomplete else "between packets")
        self.received += data
        self._stream.bytes_received(data)

    def _recv(self, most):
        return self.sock.recv(most)

    @property
    def level(self):
        """The protocol level of the CONNECT that was received."""
        return self._stream.level

    @property
    def _parsed(self):
        """Bytes of `received` that are in `packets`."""
        return len(self.received) - self._stream.incomplete

    def next(self):
        """The next packet among the bytes received, None if it is not complete."""
        p = self._stream.next_packet()
        if p:
            self.packets.append(p)
        return p

    def send(self, data):
        self.sent += data
        try:
            self._send(data)
        except OSError as error:
            raise Gone(str(error)) from None

    def _send(self, data):
        self.sock.sendall(data)

    def reset(self):
        """Ends the connection with RST, like a router that has lost it."""
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def finish(self):
        """Ends the connection with FIN: the client first reads all that was sent."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)


class _Listener:
    """A socket that listens on a port of loopback, 0 for a free one, and its connections."""

    def __init__(self, port=0):
        self._listener = socket.create_server(("127.0.0.1", port), backlog=16)
        self._listener.settimeout(PATIENCE_S)
        self.port = self._listener.getsockname()[1]
        self.connections = []
        self.failure = None
        self.finished = False  # the script has ended, with or without failure

    def accept(self):
        """Waits for the client's next connection, and returns it."""
        try:
            sock, _ = self._listener.accept()
        except TimeoutError:
            raise Violation(f"the client did not connect for {PATIENCE_S} s") from None
        except OSError:
            raise Violation("the broker was closed while it waited for the client") from None
        self.connections.append(Connection(sock))
        return self.connections[-1]

    def _run(self, work):
        try:
            work()
        except BaseException as error:  # raised by the test's own thread
            self.failure = error
            self._has_failed()
        finally:
            self.finished = True

    def _has_failed(self):
        self.close()

    def close(self):
        # shutdown() wakes a thread that waits in accept() or recv(); close() alone does not.
        for sock in [self._listener, *(c.sock for c in self.connections)]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


class Broker(_Listener):
    """Plays a script: a function of the broker, in its own thread while the test drives the client.

    real_time: the client's clock is the machine's. If that is busy, the client may ask whether the broker is alive: it
    is answered, and the script does not see it."""

    def __init__(self, port=0, real_time=False):
        super().__init__(port)
        self._real_time = real_time

    @contextlib.contextmanager
    def play(self, script):
        """`with broker.play(script): client...` ends when the script has ended. A failure of the script has
        priority."""
        thread = threading.Thread(target=self._run, args=(lambda: script(self),), daemon=True)
        thread.start()
        try:
            yield self
        except BaseException as error:
            if self.failure is None:
                self.close()
            thread.join(PATIENCE_S)
            if (
                error is not self.failure
                and isinstance(self.failure, Violation)
                and "the broker was closed" not in str(self.failure)
            ):
                raise self.failure from error
            raise
        thread.join(2 * PATIENCE_S)
        if self.failure:
            raise self.failure
        if thread.is_alive():
            self.close()
            raise Violation("the script did not end")

    @property
    def connection(self):
        return self.connections[-1]

    def receive(self):
        """Returns the client's next packet; raises Gone if the connection ends first."""
        while True:
            p = self.connection.next()
            if p and self._real_time and p.kind == PINGREQ:
                self.send(pingresp())
            elif p:
                return p
            else:
                self.connection.fill()

    def expect(self, kind, **fields):
        """Returns the client's next packet, which must be of this kind and have these fields."""
        try:
            p = self.receive()
        except Gone as gone:
            raise Violation(f"the connection ended {gone}, {NAMES[kind]} expected") from None
        if p.kind != kind:
            raise Violation(f"{p!r}, {NAMES[kind]} expected")
        for name, wanted in fields.items():
            if getattr(p, name) != wanted:
                raise Violation(f"{p!r}: {name} is {getattr(p, name)!r}, {wanted!r} expected")
        return p

    def expect_close(self):
        """The client must close the connection without sending another packet."""
        try:
            p = self.receive()
        except Gone:
            return
        raise Violation(f"{p!r}, the end of the connection expected")

    def send(self, *packets):
        """Sends packets in one write."""
        self.connection.send(b"".join(packets))

    def cut(self):
        self.connection.reset()

    @property
    def none(self):
        """The properties of a packet that has none: at level 5 they have a length."""
        return b"\0" if self.connection.level == 5 else None

    def called(self, **fields):
        """Accepts the client's next connection, and returns its CONNECT."""
        self.accept()
        return self.expect(CONNECT, **fields)

    def welcome(self, present=0, announced=(), **fields):
        """Accepts the client's next connection: CONNECT, CONNACK. announced: ((id, value), ...), its properties at
        level 5. Returns the CONNECT."""
        p = self.called(**fields)
        self.send(connack(present, 0, block(*announced) if p.level == 5 else None))
        return p

    def sleep(self, seconds):
        """The script is as slow as that."""
        time.sleep(seconds)

    def answer_ping(self, *before):
        """Receives PINGREQ and sends PINGRESP. The client must have sent everything else before. `before`: packets to
        send in one write with the PINGRESP."""
        self.expect(PINGREQ)
        self.send(*before, pingresp())

    def grant(self, *codes, **fields):
        """SUBSCRIBE, SUBACK with these codes (by default the requested QoS). Returns the SUBSCRIBE."""
        p = self.expect(SUBSCRIBE, **fields)
        self.send(suback(p.mid, *(codes or [qos for _, qos in p.filters]), properties=self.none))
        return p

    def acknowledge(self, p):
        """Completes the flow of a PUBLISH of the client."""
        if p.qos == 1:
            self.send(puback(p.mid))
        if p.qos == 2:
            self.send(pubrec(p.mid))
            self.expect(PUBREL, mid=p.mid)
            self.send(pubcomp(p.mid))

    def take(self, **fields):
        """Receives a PUBLISH and completes its flow. Returns it."""
        p = self.expect(PUBLISH, **fields)
        self.acknowledge(p)
        return p

    def deliver(self, topic, payload=b"", qos=0, mid=0, dup=0):
        """Sends PUBLISH, and receives PUBACK or PUBREC."""
        self.send(publish(topic, payload, qos, mid, dup, 0, self.none))
        if qos:
            self.expect(PUBACK if qos == 1 else PUBREC, mid=mid)

    def release(self, mid):
        """Sends PUBREL, and receives PUBCOMP."""
        self.send(pubrel(mid))
        self.expect(PUBCOMP, mid=mid)

    def goodbye(self):
        self.expect(DISCONNECT)
        self.expect_close()


# --- a complete broker ---


class _Session(JudgedSession):
    """No test publishes so many messages that Message IDs are reused."""

    def publish_arrived(self, p):
        before = self.seen.get(p.mid)
        if p.qos and before and before[0] != (p.topic, p.payload):
            raise Finding(OTHER, f"{p!r}: the id was in use for {before[0]!r}")
        return super().publish_arrived(p)


class Faults:
    """Faults of an Automatic broker. Bytes and packets are counted over all connections; each cut happens once.

    in_bytes, out_bytes, in_packets, out_packets: the connection is cut after so many
    reset: cut with RST instead of FIN
    answer: function (packet to send) -> list of packets to send instead
    silent: kinds of packets that are never answered
    after_cut: called after the connection was cut"""

    def __init__(self, **given):
        self.in_bytes = self.out_bytes = self.in_packets = self.out_packets = None
        self.reset = False
        self.answer = lambda raw: [raw]
        self.silent = ()
        self.after_cut = lambda: None
        for name, value in given.items():
            getattr(self, name)
            setattr(self, name, value)


class _Cut(Exception):
    pass


class Automatic(_Listener):
    """A complete broker in a thread: keeps sessions, acknowledges, delivers the messages of give(); with Faults.
    announced: ((id, value), ...), the properties of its CONNACK at level 5."""

    def __init__(self, faults=None, announced=()):
        super().__init__()
        self.faults = faults or Faults()
        self.arrived = []  # PUBLISH packets; QoS 2 without repetitions
        self.server = server.Server(_Session, announced=announced)
        self.total = {"in_bytes": 0, "out_bytes": 0, "in_packets": 0, "out_packets": 0}
        self.cuts = 0
        self._gifts = []
        self._wake, self._waker = socket.socketpair()
        self._connection = None
        self._link = None  # the same connection in tools.reference
        self._stopping = False
        self._start()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.stop()

    def _start(self):
        self._thread = threading.Thread(target=self._run, args=(self._serve,), daemon=True)
        self._thread.start()

    def _end(self):
        self._stopping = True
        self._waker.send(b"x")
        self._thread.join(PATIENCE_S)
        assert self.failure or not self._thread.is_alive()

    def stop(self):
        """Stops the broker. Raises the client's violation, if there was one."""
        self._end()
        self.close()
        self._wake.close()
        self._waker.close()
        if self.failure:
            raise self.failure

    def give(self, topic, payload=b"", qos=0, retain=0):
        """Queues a message for the client; it is sent as soon as the client has subscribed."""
        self._gifts.append(server.Message(topic, payload, qos, retain))
        self._waker.send(b"x")

    @property
    def sessions(self):
        return self.server.sessions

    def forget(self):
        """Loses all sessions, like a broker restarted without persistence."""
        self.server.forget()

    def payloads(self, qos=None):
        return [m.payload for m in self.arrived if qos is None or m.qos == qos]

    def _serve(self):
        while not self._stopping:
            self._serve_once(None)

    def _serve_once(self, timeout):
        """Waits, and does what there is to be done. Returns False if there was nothing."""
        connection = self._connection
        sources = [self._listener, self._wake] + ([connection.sock] if connection else [])
        ready = select.select(sources, [], [], timeout)[0]
        if self._wake in ready:
            self._wake.recv(64)
        try:
            if connection and connection.sock in ready:
                self._read(connection)
            if self._connection and self._link.session:
                self._send_queued()
        except Gone:
            self._connection = None
            connection.sock.close()
        except _Cut:
            self._cut(connection)
        if self._listener in ready:
            if self._connection:
                self._connection.sock.close()  # the newer connection wins
            self._connection = self.accept()
            self._link = server.Connection(self.server)
        return bool(ready)

    def _cut(self, connection):
        self.cuts += 1
        if self.faults.reset:
            connection.reset()
        else:
            connection.finish()
        self._connection = None
        self.faults.after_cut()

    def _allow(self, what, n):
        """Returns (how many of n bytes or packets may pass, whether the connection is cut then)."""
        limit = getattr(self.faults, what)
        left = n if limit is None else min(n, limit - self.total[what])
        self.total[what] += left
        if limit is not None and self.total[what] >= limit:
            setattr(self.faults, what, None)
            return left, True
        return left, False

    def _read(self, connection):
        limit = self.faults.in_bytes
        before = len(connection.received)
        connection.fill(65536 if limit is None else max(1, limit - self.total["in_bytes"]))
        cut = self._allow("in_bytes", len(connection.received) - before)[1]
        p = connection.next()
        while p:
            stop = self._allow("in_packets", 1)[1]
            self.packet_received(p)
            if stop:
                raise _Cut
            p = connection.next()
        if cut:
            raise _Cut

    def send(self, raw):
        """Sends a packet, with the faults."""
        for data in self.faults.answer(raw):
            n, cut = self._allow("out_bytes", len(data))
            self._connection.send(data[:n])
            if self._allow("out_packets", 1)[1] or cut:
                raise _Cut

    def packet_received(self, p):
        """Does what a packet of the client asks for."""
        if p.kind in self.faults.silent:
            return
        if p.kind == DISCONNECT:
            raise Gone
        if p.kind == PUBLISH:
            self.publish_received(p)
        else:
            self._link.packet_received(p)
        self._flush()

    def publish_received(self, p):
        """As packet_received(), of a PUBLISH."""
        if self._link.packet_received(p):
            self.arrived.append(p)

    def _send_queued(self):
        session = self._link.session
        while self._gifts and session.subscriptions:
            session.queue.append(self._gifts.pop(0))
            self._link.send_queued()
            self._flush()

    def _flush(self):
        while self._link.out:
            self.send(self._link.out.pop(0)[2])
