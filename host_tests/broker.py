"""MQTT brokers on a loopback socket, to judge the client by: `Broker` plays a script, `Automatic` behaves by itself.

Nothing here comes from lib/: the parser is written from the standard a second time, and every packet of the client
is checked against it, whatever the test is about. Every wait is bounded; a script's failure is the test's failure.
"""

import contextlib
import select
import socket
import struct
import threading
from dataclasses import dataclass, field

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = range(8, 15)
NAMES = ("0", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK")
NAMES += ("UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "15")

PATIENCE_S = 5  # how long a script waits for the client


class Violation(AssertionError):
    """The client broke the protocol, or did not do what the script expects."""


# --- the wire, from a server's side ---


def _mid(n):
    return struct.pack(">H", n)


def string(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">H", len(data)) + data


def packet(first, body=b""):
    """A packet with this first byte, any body, and the remaining length that fits."""
    n = len(body)
    digits = bytearray()
    while True:
        n, digit = divmod(n, 128)
        digits.append(digit | (0x80 if n else 0))
        if not n:
            return bytes([first]) + bytes(digits) + body


def connack(present=0, code=0):
    return packet(0x20, bytes([present, code]))


def publish(topic, payload=b"", qos=0, mid=0, dup=0, retain=0):
    head = string(topic) + (_mid(mid) if qos else b"")
    return packet(0x30 | dup << 3 | qos << 1 | retain, head + payload)


def puback(mid):
    return packet(0x40, _mid(mid))


def pubrec(mid):
    return packet(0x50, _mid(mid))


def pubrel(mid, dup=0):
    return packet(0x62 | dup << 3, _mid(mid))


def pubcomp(mid):
    return packet(0x70, _mid(mid))


def suback(mid, *codes):
    return packet(0x90, _mid(mid) + bytes(codes))


def unsuback(mid):
    return packet(0xB0, _mid(mid))


def pingresp():
    return packet(0xD0)


# --- the wire, from the client ---


@dataclass
class Packet:
    """A packet of the client. Fields that its type does not have keep their defaults."""

    kind: int
    flags: int
    raw: bytes
    mid: int = 0
    topic: str = ""
    payload: bytes = b""
    qos: int = 0
    dup: bool = False
    retain: bool = False
    filters: list = field(default_factory=list)  # [(filter, qos)], qos None in UNSUBSCRIBE
    name: bytes = b""  # CONNECT, from here on
    level: int = 0
    clean: bool = False
    keepalive: int = 0
    client_id: str = ""
    will: tuple = None  # (topic, payload, qos, retain)
    user: str = None
    password: bytes = None

    def __repr__(self):
        return f"{NAMES[self.kind]} {self.raw[:40].hex(' ')}"


class _Fields:
    """Takes a packet's body apart; everything must be used up."""

    def __init__(self, body):
        self.body = body

    def take(self, n):
        if n > len(self.body):
            raise Violation(f"packet ends early: {self.body[:40]!r}")
        part, self.body = self.body[:n], self.body[n:]
        return part

    def byte(self):
        return self.take(1)[0]

    def word(self):
        return struct.unpack(">H", self.take(2))[0]

    def mid(self):
        mid = self.word()
        if not mid:
            raise Violation("Message ID 0")
        return mid

    def data(self):
        return self.take(self.word())

    def text(self):
        try:
            text = self.data().decode("utf-8")  # refuses surrogates and overlong forms as well
        except UnicodeDecodeError as error:
            raise Violation(f"ill-formed UTF-8: {error}") from None
        if "\0" in text:
            raise Violation("U+0000 in a string")
        return text

    def rest(self):
        return self.take(len(self.body))

    def end(self):
        if self.body:
            raise Violation(f"{len(self.body)} bytes too many: {self.body[:40]!r}")


def parse(raw, level=4):
    """The Packet that the client sent as `raw`; Violation if the standard forbids it."""
    kind, flags = raw[0] >> 4, raw[0] & 15
    i = 2
    while raw[i - 1] & 0x80:
        i += 1
    p = Packet(kind, flags, raw)
    f = _Fields(raw[i:])
    read = _PARSERS.get(kind)
    if not read:
        raise Violation(f"a client never sends {NAMES[kind]}")
    # Level 3 marks a repeated PUBREL, SUBSCRIBE or UNSUBSCRIBE with DUP; level 4 reserves the bit.
    fixed = 2 if kind in (PUBREL, SUBSCRIBE, UNSUBSCRIBE) else 0
    allowed = {fixed, fixed | 8} if level == 3 and fixed else {fixed}
    if kind != PUBLISH and flags not in allowed:
        raise Violation(f"flags {flags} of {NAMES[kind]}")
    p.dup = bool(flags & 8)
    read(p, f)
    f.end()
    return p


def _parse_connect(p, f):
    p.name, p.level, flags, p.keepalive = f.data(), f.byte(), f.byte(), f.word()
    if (p.name, p.level) not in ((b"MQTT", 4), (b"MQIsdp", 3)):
        raise Violation(f"protocol {p.name!r} level {p.level}")
    will_qos = flags >> 3 & 3
    if flags & 1 or will_qos == 3:
        raise Violation(f"connect flags {flags:#x}")
    if not flags & 4 and flags & 0x38:
        raise Violation("will QoS or retain without a will")
    if flags & 0x40 and not flags & 0x80:
        raise Violation("password without user name")
    p.clean = bool(flags & 2)
    p.client_id = f.text()
    if flags & 4:
        p.will = (f.text(), f.data(), will_qos, bool(flags & 0x20))
    if flags & 0x80:
        p.user = f.text()
    if flags & 0x40:
        p.password = f.data()
    if p.level == 3 and not 1 <= len(p.client_id) <= 23:
        raise Violation("client id of level 3")
    if not p.client_id and not p.clean:
        raise Violation("empty client id without clean session")


def _parse_publish(p, f):
    p.qos, p.retain = p.flags >> 1 & 3, bool(p.flags & 1)
    p.topic = f.text()
    if p.qos == 3 or (p.dup and not p.qos):
        raise Violation(f"PUBLISH flags {p.flags}")
    if not p.topic or "+" in p.topic or "#" in p.topic:
        raise Violation(f"topic name {p.topic!r}")
    if p.qos:
        p.mid = f.mid()
    p.payload = f.rest()


def _parse_ack(p, f):
    p.mid = f.mid()


def _parse_subscribe(p, f):
    p.mid = f.mid()
    while f.body:
        name = f.text()
        qos = f.byte() if p.kind == SUBSCRIBE else None
        if not name or (qos or 0) > 2:
            raise Violation(f"filter {name!r} QoS {qos}")
        p.filters.append((name, qos))
    if not p.filters:
        raise Violation("no filters")


def _parse_bare(p, f):
    pass


_PARSERS = {
    CONNECT: _parse_connect,
    PUBLISH: _parse_publish,
    PUBACK: _parse_ack,
    PUBREC: _parse_ack,
    PUBREL: _parse_ack,
    PUBCOMP: _parse_ack,
    SUBSCRIBE: _parse_subscribe,
    UNSUBSCRIBE: _parse_subscribe,
    PINGREQ: _parse_bare,
    DISCONNECT: _parse_bare,
}


class Gone(Exception):
    """The client closed the connection (or lost it)."""


class Connection:
    """One connection of the client: what came in, byte by byte and packet by packet, and what went out."""

    def __init__(self, sock):
        self.sock = sock
        self.received = bytearray()
        self.sent = bytearray()
        self.packets = []
        self._parsed = 0  # bytes of `received` that are in `packets`
        sock.settimeout(PATIENCE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fill(self, most=65536):
        """Reads what is there, at least a byte; Gone at the end."""
        try:
            data = self.sock.recv(most)
        except TimeoutError:
            raise Violation(f"the client sent nothing for {PATIENCE_S} s; so far {self.packets}") from None
        except OSError:
            data = b""
        if not data:
            raise Gone("inside a packet" if self._parsed < len(self.received) else "between packets")
        self.received += data

    def next(self):
        """The next packet among the bytes received, None if it is not complete."""
        raw = self.received[self._parsed :]
        size = i = 0
        while True:
            i += 1
            if i > 4:
                raise Violation("remaining length of five bytes")
            if i >= len(raw):
                return None
            size |= (raw[i] & 0x7F) << 7 * (i - 1)
            if not raw[i] & 0x80:
                break
        end = i + 1 + size
        if len(raw) < end:
            return None
        p = parse(bytes(raw[:end]), self.packets[0].level if self.packets else 4)
        if (p.kind == CONNECT) != (not self.packets):
            raise Violation(f"{p} is packet {len(self.packets) + 1} of the connection")
        if self.packets and self.packets[-1].kind == DISCONNECT:
            raise Violation(f"{p} after DISCONNECT")
        self._parsed += end
        self.packets.append(p)
        return p

    def send(self, data):
        self.sent += data
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise Gone(str(error)) from None

    def reset(self):
        """Cuts the connection: the client gets a reset, as from a router that forgot it."""
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def finish(self):
        """Cuts the connection: the client reads to the end of what was sent, then meets the end."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)


class _Listener:
    """A socket that listens on a free port of loopback, and the connections that came in."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self._listener.settimeout(PATIENCE_S)
        self.port = self._listener.getsockname()[1]
        self.connections = []
        self.failure = None
        self.finished = False  # the script has ended, well or not

    def _accept(self):
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
        except BaseException as error:  # told by the test's own thread
            self.failure = error
            self.close()
        finally:
            self.finished = True

    def close(self):
        # shutdown() wakes a thread that waits in accept() or recv(); close() alone does not.
        for sock in [self._listener, *(c.sock for c in self.connections)]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


class Broker(_Listener):
    """Plays a script: a function of the broker, run in a thread of its own while the test drives the client."""

    @contextlib.contextmanager
    def play(self, script):
        """`with broker.play(script): client...`: leaves when the script has ended; its failure comes first."""
        thread = threading.Thread(target=self._run, args=(lambda: script(self),), daemon=True)
        thread.start()
        try:
            yield self
        except BaseException as error:
            if self.failure is None:
                self.close()
            thread.join(PATIENCE_S)
            if isinstance(self.failure, Violation) and "the broker was closed" not in str(self.failure):
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

    def accept(self):
        """Waits for the client's next connection."""
        return self._accept()

    def receive(self):
        """The client's next packet; Gone when the connection ends first."""
        while True:
            p = self.connection.next()
            if p:
                return p
            self.connection.fill()

    def expect(self, kind, **fields):
        """The client's next packet, which must be of this kind and have these fields."""
        try:
            p = self.receive()
        except Gone as gone:
            raise Violation(f"the client left {gone}, {NAMES[kind]} expected") from None
        if p.kind != kind:
            raise Violation(f"{p!r}, {NAMES[kind]} expected")
        for name, wanted in fields.items():
            if getattr(p, name) != wanted:
                raise Violation(f"{p!r}: {name} is {getattr(p, name)!r}, {wanted!r} expected")
        return p

    def expect_close(self):
        """The client must close the connection, with nothing more to say."""
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

    def welcome(self, present=0, **fields):
        """The whole of a connection's beginning: accept, CONNECT, CONNACK. Returns the CONNECT."""
        self.accept()
        p = self.expect(CONNECT, **fields)
        self.send(connack(present))
        return p

    def answer_ping(self):
        """PINGREQ, PINGRESP: a fence. Everything the client had to say before has been said."""
        self.expect(PINGREQ)
        self.send(pingresp())

    def free_ids(self, first=1):
        """The client proves that ids are free, which it has to in a session that its journal does not know."""
        mids = [self.expect(PUBREL).mid for _ in range(16)]
        if mids != list(range(first, first + 16)):
            raise Violation(f"PUBRELs for {mids}, expected from {first} on")
        self.send(*map(pubcomp, mids))

    def goodbye(self):
        self.expect(DISCONNECT)
        self.expect_close()


# --- a broker that behaves ---


@dataclass
class Message:
    topic: str
    payload: bytes
    qos: int
    dup: bool
    mid: int
    retain: bool = False


class _Session:
    def __init__(self):
        self.subscriptions = {}
        self.held = set()  # ids of QoS 2 messages received, not released
        self.seen = {}  # id -> body of what the client published under it
        self.released = set()  # ids that the client released
        self.flight = []  # [mid, topic, payload, qos, state]: towards the client
        self.queue = []
        self.last_mid = 0


class Faults:
    """What goes wrong. Bytes and packets are counted over all connections, each cut happens once.

    in_bytes, out_bytes, in_packets, out_packets: the connection is cut after so many
    reset: cut by a reset; else by an end of file behind the last byte
    answer: function (packet to be sent) -> the packets that go out in its stead
    silent: kinds of the client's packets that are never answered
    after_cut: called when the connection has been cut"""

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
    """A well-behaved broker in a thread: keeps sessions, acknowledges, hands out what give() was told; with Faults."""

    def __init__(self, faults=None):
        super().__init__()
        self.faults = faults or Faults()
        self.arrived = []  # Messages, QoS 2 once
        self.sessions = {}
        self.total = {"in_bytes": 0, "out_bytes": 0, "in_packets": 0, "out_packets": 0}
        self.cuts = 0
        self._gifts = []
        self._wake, self._waker = socket.socketpair()
        self._connection = None
        self._session = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, args=(self._serve,), daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.stop()

    def stop(self):
        """Ends; raises what the judge found."""
        self._stopping = True
        self._waker.send(b"x")
        self._thread.join(PATIENCE_S)
        self.close()
        self._wake.close()
        self._waker.close()
        if self.failure:
            raise self.failure
        assert not self._thread.is_alive()

    def give(self, topic, payload=b"", qos=0, retain=0):
        """A message for the client; it goes out as soon as somebody has subscribed."""
        self._gifts.append((topic, payload, qos, retain))
        self._waker.send(b"x")

    def forget(self):
        """Loses all sessions, as a broker restarted without persistence."""
        self.sessions.clear()

    def payloads(self, qos=None):
        return [m.payload for m in self.arrived if qos is None or m.qos == qos]

    def _serve(self):
        while not self._stopping:
            connection = self._connection
            sources = [self._listener, self._wake] + ([connection.sock] if connection else [])
            ready = select.select(sources, [], [], 1)[0]
            if self._wake in ready:
                self._wake.recv(64)
            try:
                if connection and connection.sock in ready:
                    self._read(connection)
                if self._session and self._connection:
                    self._hand_out()
            except Gone:
                self._connection = None
                connection.sock.close()
            except _Cut:
                self._cut(connection)
            if self._listener in ready:
                if self._connection:
                    self._connection.sock.close()  # the newer connection wins
                self._connection = self._accept()
                self._session = None

    def _cut(self, connection):
        self.cuts += 1
        if self.faults.reset:
            connection.reset()
        else:
            connection.finish()
        self._connection = self._session = None
        self.faults.after_cut()

    def _allow(self, what, n):
        """How many of n bytes (packets) may still pass before the cut."""
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
            self._handle(p)
            if stop:
                raise _Cut
            p = connection.next()
        if cut:
            raise _Cut

    def _send(self, raw):
        for data in self.faults.answer(raw):
            n, cut = self._allow("out_bytes", len(data))
            self._connection.send(data[:n])
            if self._allow("out_packets", 1)[1] or cut:
                raise _Cut

    def _handle(self, p):
        if p.kind in self.faults.silent:
            return
        getattr(self, "_on_" + NAMES[p.kind].lower())(p)

    def _on_connect(self, p):
        if p.clean:
            self.sessions.pop(p.client_id, None)
        present = p.client_id in self.sessions
        self._session = session = self.sessions.setdefault(p.client_id, _Session())
        if p.clean:
            del self.sessions[p.client_id]
        self._send(connack(1 if present and p.level == 4 else 0))
        for mid, topic, payload, qos, state in session.flight:
            if state == "released":
                self._send(pubrel(mid, 1 if p.level == 3 else 0))
            else:
                self._send(publish(topic, payload, qos, mid, dup=1))

    def _on_publish(self, p):
        session = self._session
        if p.mid in session.released:
            raise Violation(f"{p!r} after its PUBREL")
        body = (p.topic, p.payload, p.qos)
        if p.qos and p.mid in session.seen:
            if session.seen[p.mid] != body:
                raise Violation(f"{p!r}: the id was in use for {session.seen[p.mid]!r}")
            if not p.dup:
                raise Violation(f"{p!r} was sent before: DUP is missing")
        if p.qos:
            session.seen[p.mid] = body
        if p.qos < 2 or p.mid not in session.held:
            self.arrived.append(Message(p.topic, p.payload, p.qos, p.dup, p.mid, p.retain))
        if p.qos == 1:
            self._send(puback(p.mid))
        elif p.qos == 2:
            session.held.add(p.mid)
            self._send(pubrec(p.mid))

    def _on_pubrel(self, p):
        self._session.held.discard(p.mid)
        if p.mid in self._session.seen:  # else it frees what another journal left [MQTT-4.3.3-2]
            self._session.released.add(p.mid)
        self._send(pubcomp(p.mid))

    def _on_puback(self, p):
        self._ended(p, 1, "sent")

    def _on_pubrec(self, p):
        for row in self._session.flight:
            if row[0] == p.mid:
                row[4] = "released"
        self._send(pubrel(p.mid))

    def _on_pubcomp(self, p):
        self._ended(p, 2, "released")

    def _ended(self, p, qos, state):
        flight = self._session.flight
        for row in flight:
            if row[0] == p.mid and (row[3], row[4]) != (qos, state):
                raise Violation(f"{p!r} for {row}")
        flight[:] = [row for row in flight if row[0] != p.mid]

    def _on_subscribe(self, p):
        self._session.subscriptions.update(p.filters)
        self._send(suback(p.mid, *(qos for _, qos in p.filters)))

    def _on_unsubscribe(self, p):
        for name, _ in p.filters:
            self._session.subscriptions.pop(name, None)
        self._send(unsuback(p.mid))

    def _on_pingreq(self, p):
        self._send(pingresp())

    def _on_disconnect(self, p):
        raise Gone

    def _hand_out(self):
        session = self._session
        while self._gifts and session.subscriptions:
            topic, payload, qos, retain = self._gifts.pop(0)
            if qos:
                session.last_mid += 1
                session.flight.append([session.last_mid, topic, payload, qos, "sent"])
            self._send(publish(topic, payload, qos, session.last_mid if qos else 0, 0, retain))
