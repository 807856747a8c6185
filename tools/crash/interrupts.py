"""At one line of the library, in a call of a client, an error comes, or another call. Then a call brings the client
back, and what became of the messages is judged. Client and broker take turns in virtual time, so that a line is the
same one in each run."""

import asyncio
import contextlib
import io
import socket
from collections import Counter, namedtuple
from collections.abc import Callable
from errno import EIO
from functools import partial
from itertools import count, cycle, product
from unittest import mock

from inflight import AsyncClient, Client, Journal, RamFlash
from inflight.packet import ProtocolError
from nor import NorFlash
from tools.clock import TurnsClock, VirtualLoop, end_tasks
from tools.reference.at_line import AtLine
from tools.reference.kinds import DISCONNECT, PUBLISH
from tools.reference.oracle import LOST, OTHER, TWICE, Finding, JudgedSession, judge
from tools.reference.server import Connection, Message, Server
from tools.reference.wire import Stream

_MS = 10_000
_RING = 6, 2048
_TURNS = 60  # of a call that is repeated until something has happened
_LOOKS = 100_000  # at the clock: whoever waits, or tries again, looks at it
# Wherever its bytes are taken for a packet, that is a PUBACK of an own message.
_LIKE_PUBACKS = bytes((0x40, 2, 0, 3)) * 12
# An error in a property that a handler reads is the application's own; so is one where it is called.
_OF_A_MESSAGE = ("topic", "payload", "view", "offset", "redelivered")


class Endless(BaseException):
    """A call, or the client, goes on without end."""


class _Clock(TurnsClock):
    looks = 0

    def time(self):
        self.looks += 1
        if self.looks > _LOOKS:
            raise Endless
        return super().time()


class _Broker:
    """The reference server on a socket. What it has to send leaves in one piece, so that the client reads several
    packets at once."""

    wakes_at = 0

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self.server = Server(JudgedSession)
        self.arrived = []  # payloads
        self._sock = self._link = self._stream = None

    @property
    def subscriptions(self):
        session = self.server.sessions.get("dev")
        return list(session.subscriptions) if session else []

    def give(self, topic, payload, qos):
        self.server.sessions["dev"].queue.append(Message(topic, payload, qos, 0))

    def forget(self):
        self._close()
        self.server.forget()

    def idle(self):
        """Does all that there is to be done."""
        with contextlib.suppress(BlockingIOError):
            sock, _ = self._listener.accept()
            self._close()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sock, self._link, self._stream = sock, Connection(self.server), Stream()
        while self._sock and self._take_turn():
            pass

    def _take_turn(self):
        data = b""
        try:
            data = self._sock.recv(65536)
            if not data:
                return self._close()
        except BlockingIOError:
            pass
        except OSError:
            return self._close()
        self._stream.bytes_received(data)
        last = None
        while p := self._stream.next_packet():
            if self._link.packet_received(p) and p.kind == PUBLISH:
                self.arrived.append(p.payload)
            last = p
        over = last and last.kind == DISCONNECT
        while not over and self._link.send_queued():
            pass
        out = self._link.data_to_send()
        with contextlib.suppress(OSError):
            self._sock.send(out)
        return self._close() if over else data or out

    def _close(self):
        if self._sock:
            self._sock.close()
            self._sock = None

    def close(self):
        self._close()
        self._listener.close()


class Blocking:
    """A device whose application uses the blocking client, with messages in its journal."""

    client_class = Client
    client = None

    def __init__(self, level):
        self.broker = _Broker()
        self.clock = _Clock()
        self.clock.brokers.append(self.broker)
        self.level = level
        self.flash = RamFlash(*_RING) if level == 4 else NorFlash(*_RING, 4)
        self.journal = Journal(self.flash)
        self.accepted = {}  # payload: QoS
        self.given = {}
        self.came = {}  # payload: [how often it came, how often it came again]
        self.errors = []
        self.number = 0
        self.make()
        for k in range(6):
            self.publish(k % 2 + 1)

    def make(self):
        options = {"port": self.broker.port, "protocol_level": self.level, "timeout_ms": _MS, "backoff_ms": (0, 0)}
        options.update(keepalive=0, max_inflight=4, on_error=self.errors.append)
        self.client = None
        self.client = self.client_class("127.0.0.1", "dev", self.journal, **options)

    def call(self, name, *args):
        return getattr(self.client, name)(*args)

    def start(self):
        """From now on the client connects by itself, while it runs."""

    def run(self):
        self.client.run_for(1)

    def payload(self, qos):
        self.number += 1
        return b"%d %d" % (qos, self.number)

    def publish(self, qos):
        payload = self.payload(qos)
        mid = self.call("publish", "out", payload, qos)
        if qos:
            self.accepted[payload] = qos
            self.last = payload, mid

    def give(self, *topics):
        for topic in topics:
            for qos in (2, 1):
                payload = self.payload(qos) + b" " + _LIKE_PUBACKS
                self.given[payload] = qos
                self.broker.give(topic, payload, qos)

    def handle(self, message):
        self.came.setdefault(bytes(message.payload), [0, 0])[message.redelivered] += 1

    def subscribe(self, *topics):
        for topic in topics:
            self.call("subscribe", topic, 2, self.handle)

    def pending_in_flash(self):
        """What a start would find now."""
        other = RamFlash(*_RING) if self.level == 4 else NorFlash(*_RING, 4)
        if self.level == 4:
            other._file = io.BytesIO(self.flash._file.getvalue())
        else:
            other.data[:] = self.flash.data
        return Journal(other).live

    def finish(self):
        """The client is disconnected."""

    def close(self):
        self.client._close()
        self.broker.close()


class Asyncio(Blocking):
    """The same with the asyncio client: each call runs the event loop until it is complete. If the loop is interrupted
    the call goes on, as a task, with the next one."""

    client_class = AsyncClient
    loop = consumer = None
    consumes = False

    def call(self, name, *args):
        result = getattr(self.client, name)(*args)
        return self._wait(result) if asyncio.iscoroutine(result) else result

    def _wait(self, work):
        if not self.loop:
            self.loop = VirtualLoop(self.clock)
            self.loop.set_exception_handler(lambda *_: None)
            self.left = []
        task = self.loop.create_task(work)
        try:
            return self.loop.run_until_complete(task)
        except KeyboardInterrupt:
            self.left.append(task)
            with contextlib.suppress(RuntimeError):  # the loop was about to stop, and does so now
                self.loop.run_until_complete(asyncio.sleep(0))
            raise

    def start(self):
        if not self.client._tasks:
            self.call("__aenter__")

    def run(self):
        self._wait(self._run())

    async def _run(self):
        if self.consumes and (not self.consumer or self.consumer.done()):
            self.consumer = asyncio.create_task(self._consume(1 << 20))
        await asyncio.sleep(0.1)

    def consume(self, n):
        self.consumes = True
        self.call("subscribe", "loop", 2)
        self.give("loop")
        self._wait(self._consume(n))

    async def _consume(self, n):
        self.consumer = asyncio.current_task()
        async for message in self.client:
            self.handle(message)
            n -= 1
            if not n:
                break

    def finish(self):
        if not self.loop:
            return
        if self.consumer:
            self.consumer.cancel()
        if self.left and self.loop.run_until_complete(asyncio.wait(self.left, timeout=_MS))[1]:
            raise Finding(OTHER, "the call that was interrupted does not end")
        self.loop.run_until_complete(asyncio.sleep(0.1))
        if asyncio.all_tasks(self.loop):
            raise Finding(OTHER, f"these go on after disconnect(): {asyncio.all_tasks(self.loop)}")

    def close(self):
        super().close()
        if self.loop:
            self.clock.looks = 0
            self.loop.run_until_complete(end_tasks())
            self.loop.close()


def _raise(error, device):
    raise error


def _publish(device):
    """A call within the call: it is accepted, or refused before anything is written."""
    with contextlib.suppress(RuntimeError, OSError):  # the latter of QoS 0
        device.publish(device.number % 3)


def _list(device):
    """Likewise."""
    with contextlib.suppress(RuntimeError):
        found = [message[1] for message in device.client.pending_messages()]
        if found != sorted(set(found) & set(range(device.number))):
            raise Finding(OTHER, f"{found} are pending")


EVENTS: dict[str, Callable] = {
    "KeyboardInterrupt": partial(_raise, KeyboardInterrupt),
    "MemoryError": partial(_raise, MemoryError),
    "OSError": partial(_raise, OSError(EIO, "of a commit")),
    "publish": _publish,
    "pending_messages": _list,
}


def _recover(device):
    device.client.session.busy = True  # as after flash that failed
    device.run()


def _discard(device):
    payload, mid = device.last
    device.accepted.pop(payload)  # it may arrive or not
    device.call("discard", mid)


# Whether the client is connected, and messages have come for it; and the call.
CALLS = {
    "constructor": (False, lambda d: d.make()),
    "connect": (False, lambda d: d.call("connect")),
    "run": (False, lambda d: (d.start(), d.run())),
    "run, connected": (True, lambda d: d.run()),
    "run, which recovers": (True, _recover),
    "run, forgotten": (True, lambda d: (d.run(), d.run())),
    "drain": (True, lambda d: d.call("drain", _MS)),
    "publish": (True, lambda d: d.publish(2)),
    "publish at QoS 0": (True, lambda d: d.publish(0)),
    "publish, offline": (False, lambda d: d.publish(1)),
    "subscribe": (True, lambda d: d.subscribe("new")),
    "subscribe again": (True, lambda d: d.subscribe("in")),
    "unsubscribe": (True, lambda d: d.call("unsubscribe", "old")),
    "ping": (True, lambda d: d.call("ping")),
    "disconnect": (True, lambda d: d.call("disconnect")),
    "discard": (True, _discard),
    "is_pending": (True, lambda d: d.call("is_pending", 6)),
    "pending_messages": (True, lambda d: list(d.client.pending_messages())),
    "async for": (True, lambda d: d.consume(2)),
}
WAYS = {
    "run": lambda d: d.run(),
    "drain": lambda d: (d.client.pending or d.publish(1), d.call("drain", _MS)),
    "publish": lambda d: (d.publish(1), d.run()),
    "connect": lambda d: d.client.connected or d.call("connect"),
}
_RAISED = KeyboardInterrupt, MemoryError, OSError
CLIENTS = {"blocking": Blocking, "asyncio": Asyncio}
Point = namedtuple("Point", "client level call event")


def _is_possible(point):
    within = point.event in ("publish", "pending_messages")
    if point.client == "asyncio":
        return not within
    return point.call != "async for" and not (within and point.call == "constructor")


POINTS = [point for point in map(Point._make, product(CLIENTS, (4, 5), CALLS, EVENTS)) if _is_possible(point)]


def explore(point, first=0, stride=1, names=(), event="line"):
    """Plays the lines from `first` on that are so far apart. Returns how many, and what was found, "": nothing.
    names: of these functions; event "opcode": their bytecodes."""
    for n, (k, way) in enumerate(zip(count(first, stride), cycle(WAYS))):
        try:
            if play(point, k, way, names, event) <= k:
                return n, ""
        except (Exception, Endless) as error:
            return n, f"{point} at {k}, then {way}: {error!r}"


def play(point, k, way, names=(), event="line"):
    """The event of the point comes at line k of its call; then `way` brings the client back. Returns how many lines the
    call ran until then, or in all. Raises Finding. names, event: as for explore()."""
    device = CLIENTS[point.client](point.level)
    clock = device.clock
    with mock.patch("inflight.cpython.time", clock), mock.patch("inflight.net.transport.poller", clock.poller()):
        try:
            ran = _call(device, point, k, names, event)
            _bring_back(device, point.call, way)
            _judge(device, point.call)
        finally:
            device.close()
    return ran


def _call(device, point, k, names, event):
    connected, call = CALLS[point.call]
    if connected:
        device.subscribe("in", "old")
        device.call("connect")
        device.give("in")
    if point.call == "run, forgotten":  # by the broker, with nothing in flight
        device.call("drain", _MS)
        device.run()
        device.broker.forget()
    elif connected:
        for qos in 3 * (1, 2):
            device.publish(qos)
    if point.event == "OSError":
        names = ("_sync",)

    def counts(code):
        return code.co_name in names if names else code.co_name not in (*_OF_A_MESSAGE, "_call_handler")

    with AtLine(k, partial(EVENTS[point.event], device), counts, event) as lines, contextlib.suppress(*_RAISED):
        call(device)
    return k - lines.left


def _bring_back(device, call, way):
    if not device.client:
        device.make()
    client = device.client
    with contextlib.suppress(OSError):  # it may raise, but not say what is not so
        pending, there = client.pending, device.pending_in_flash()
        if abs(pending - there) > 1:  # the one whose operation was interrupted
            raise Finding(OTHER, f"{pending} are pending, {there} are in the journal")
    for topic in device.broker.subscriptions:
        if call != "unsubscribe" or topic != "old":
            device.give(topic)
    if call == "disconnect":
        _until(lambda: client.connected, lambda: device.call("connect"), "connect() fails")
    device.start()
    _until(
        lambda: client.connected and (way == "connect" or not client.pending),
        lambda: WAYS[way](device),
        f"{way} does not bring the client back: {device.errors[-3:]}",
    )


def _until(condition, act, what):
    for _ in range(_TURNS):
        with contextlib.suppress(OSError):
            if condition():
                return
            act()
    raise Finding(OTHER, what)


def _judge(device, call):
    client, broker = device.client, device.broker
    _until(
        lambda: client.connected and "in" in broker.subscriptions,
        lambda: (CALLS[call][0] or device.subscribe("in"), device.run()),
        "the broker is not asked for a filter",
    )
    device.give("in")
    _until(lambda: set(device.given) <= set(device.came), device.run, "messages do not come")
    if not device.call("drain", _MS) or client.pending or client.is_pending(1):
        raise Finding(OTHER, f"drain() ends, and {client.pending} are pending")
    if client.counters()["unhandled"] and call != "unsubscribe":
        raise Finding(LOST, "a message was acknowledged, and no handler got it")
    device.call("disconnect")
    device.finish()
    if any(isinstance(error, (ProtocolError, Finding)) for error in device.errors):
        raise Finding(OTHER, f"the broker is accused: {device.errors}")
    came = {payload: max(first, 1) for payload, (first, _) in device.came.items()}
    for wanted, times in ((device.accepted, Counter(broker.arrived)), (device.given, came)):
        lost, twice, _ = judge(wanted, times)
        if lost or twice:
            raise Finding(LOST if lost else TWICE, f"{[payload[:6] for payload in lost or twice]}: {device.errors}")
    device.make()  # nobody holds the journal
    journal = Journal(device.flash)
    if journal.live or journal.damaged:
        raise Finding(OTHER, f"{journal.live} records live, {journal.damaged} are damaged")
