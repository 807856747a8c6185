"""Calls of both clients in any order, with arguments of any kind, while a correct broker answers, the link breaks and
the power is cut: each call raises what docs/guide/errors.md says and nothing else, and every message that publish()
accepted arrives; at QoS 2 once.

data: a byte (level, kind of client), then calls as Run.step() tells, each followed by a byte for each argument."""

import asyncio
import sys
from array import array
from errno import ECONNRESET

import inflight.client.aio
from inflight import AsyncClient, Client, Journal, OutboxFull, RamFlash, properties
from inflight.states import OPEN
from outcome import Finding, Outcome, Reader, demand
from tools.reference.kinds import PUBLISH
from tools.reference.server import Connection, Message, Server
from tools.reference.wire import Stream

_META = properties(expiry=60)
_WIDE = memoryview(array("H", range(40)))
_ODD = (-1, 3, 1.0, True, None, "", "a/#", b"\xff", bytes(5000), [], [1], {}, 1 << 29, 1 << 70, len, _META, ("a", 1))
_TOPICS = ("t", b"t", "a/b", "ü")
_PAYLOADS = (b"", b"1", "2", bytearray(b"3"), memoryview(b"44"), bytes(300), _WIDE, "ü" * 50)
_FILTERS = ("t", "a/#", b"+/b", (("t", 1), ("a/+", 2)), [["a", 0]])
_OPTIONS = "port user will keepalive backoff_ms timeout_ms max_inflight buffer on_error qos".split()
_NEVER = ()
_LONGEST_MS = 5


class Link:
    """A connection to the broker, in place of a Transport: its answers are there at once."""

    def __init__(self, run):
        self.stream = self.file = self
        self._run = run
        self._to = Connection(run.server)
        self._packets = Stream()
        self._answers = b""
        self.broken = False

    def write(self, buf, at, n):
        self._check()
        self._packets.bytes_received(bytes(memoryview(buf)[at : at + n]))
        while p := self._packets.next_packet():
            if self._to.packet_received(p) and p.kind == PUBLISH:
                self._run.arrived.append((p.topic, bytes(p.payload), p.qos))
        return n

    send = write

    def receive(self, view, n):
        self._check()
        while self._to.send_queued():
            pass
        self._answers += self._to.data_to_send()
        n = min(n, len(self._answers))
        view[:n] = self._answers[:n]
        self._answers = self._answers[n:]
        return n

    def _check(self):
        if self.broken:
            raise OSError(ECONNRESET, "the link broke")

    def wait(self, ms, write=False):
        pass

    def close(self):
        self.broken = True


class Blocking(Client):
    def _do_step(self, step):
        if step == OPEN:
            self._transport = self._script.link = Link(self._script)
            step = -1
        super()._do_step(step)


class Idle:
    """In place of an IOWaiter."""

    woken = True

    async def wait(self, file, write):
        await asyncio.sleep(0)

    def wake(self):
        pass


class Run:
    def __init__(self, reader, level, client_class):
        self._reader = reader
        self._level = level
        self._class = client_class
        self.server = Server()
        self.flash = RamFlash(8, 1024)
        self.link = None
        self.arrived = []
        self.accepted = []
        self.number = Outcome()
        self.make({})

    def make(self, options):
        """A client after a power cut."""
        if self.link:
            self.link.close()
        settings = {"timeout_ms": 20_000, "backoff_ms": (0, 0), "keepalive": 0, "on_error": lambda error: None}
        settings.update(options)
        client = self._class("h", "dev", Journal(self.flash), protocol_level=self._level, **settings)
        client._script = self
        client._waiter = Idle()
        self.client = client

    # --- arguments ---

    def pick(self, good):
        """One of `good`, or one time in eight any other."""
        k = self._reader.byte()
        return _ODD[(k >> 3) % len(_ODD)] if k & 7 == 7 else good[(k >> 3) % len(good)]

    def pick_ms(self):
        ms = self.pick((0, 1, 2, 3))
        return ms if ms.__class__ is not int or ms <= _LONGEST_MS or ms >= 1 << 29 else 0

    # --- calls ---

    async def call(self, name, documented, *args):
        """Calls a method. Returns its result, None if it raised one of the documented exceptions."""
        try:
            result = getattr(self.client, name)(*args)
            if hasattr(result, "send"):
                result = await result
            return result
        except documented as e:
            if isinstance(e, ValueError):  # others depend on how far the connection is
                self.number.note(name.encode())
            return None

    async def step(self, kind):
        pick = self.pick
        if kind < 5:
            await self.publish(
                pick(_TOPICS), pick(_PAYLOADS), pick((1, 2, 0)), pick((False, True)), pick((None, _META))
            )
        elif kind == 5:
            filters, qos = pick(_FILTERS), pick((0, 1, 2))
            await self.call("subscribe", (ValueError, OSError), filters, qos, pick((len, None)), pick((False, True)))
        elif kind == 6:
            await self.call("unsubscribe", (ValueError, OSError), pick(_FILTERS[:3]))
        elif kind == 7:
            name = "drain" if self._class is not Blocking else "run_for"
            await self.call(name, ValueError, self.pick_ms())
        elif kind == 8:
            await self.call("drain", ValueError, self.pick_ms(), pick((0, 1, 2, 3)))
        elif kind == 9:
            await self.call("ping", OSError)
        elif kind == 10:
            await self.call("connect", OSError)
        elif kind == 11:
            await self.call("disconnect", ValueError, pick((False, True)))
        elif kind == 12:
            await self.call("is_pending", ValueError, pick((0, 1, 2, 3)))
            await self.call("counters", _NEVER)
        elif kind == 13 and self.link:
            self.link.broken = True
        elif kind == 14:
            await self.restart({_OPTIONS[self._reader.byte() % len(_OPTIONS)]: pick((1, 2, 3))})
        else:
            for session in self.server.sessions.values():
                session.queue.append(Message("t", b"given", pick((0, 1, 2)) in (1, 2) and 1, False))

    async def publish(self, topic, payload, qos, retain, meta):
        mid = await self.call("publish", (ValueError, OutboxFull, OSError), topic, payload, qos, retain, meta)
        if mid:
            topic = topic if isinstance(topic, str) else topic.decode()
            self.accepted.append((topic, payload.encode() if isinstance(payload, str) else bytes(payload), qos))

    async def restart(self, options):
        await self.call("disconnect", _NEVER)
        try:
            self.make(options)
        except (ValueError, TypeError):
            self.make({})

    async def play(self):
        while self._reader.left:
            await self.step(self._reader.byte() & 15)
        await self.call("disconnect", _NEVER)
        self.make({})
        await self.call("connect", _NEVER)
        for _ in range(1000):
            if not self.client.pending:
                break
            await self.call("drain", _NEVER, _LONGEST_MS)
        demand(not self.client.pending, "%d messages wait for ever", self.client.pending)
        await self.call("disconnect", _NEVER)
        self.check()

    def check(self):
        for message in set(self.accepted):
            n, wanted = self.arrived.count(message), self.accepted.count(message)
            demand(n == wanted or (message[2] == 1 and n > wanted), "%r: %d of %d arrived", message, n, wanted)
        for message in self.arrived:
            demand(not message[2] or message in self.accepted, "%r arrived, which was not accepted", message)


def run(data):
    reader = Reader(data)
    first = reader.byte()
    playing = Run(reader, 3 + first % 3, AsyncClient if first & 8 else Blocking)
    if not first & 8:
        try:
            playing.play().send(None)
        except StopIteration:
            return playing.number.number
        raise Finding("the blocking client waits for asyncio")

    async def open_socket(waiter, host, port, timeout_ms):
        playing.link = Link(playing)
        return playing.link

    whole = inflight.client.aio.open_socket, inflight.client.aio.Transport
    inflight.client.aio.open_socket, inflight.client.aio.Transport = open_socket, lambda link, *_: link
    try:
        asyncio.run(playing.play())
    finally:
        inflight.client.aio.open_socket, inflight.client.aio.Transport = whole
        if sys.implementation.name == "micropython":
            asyncio.new_event_loop()  # what is left of the client's tasks
    return playing.number.number
