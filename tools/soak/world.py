"""A network and a broker within the process, for clients on a virtual clock: the sockets are pairs of the kernel's own,
so that all of the client runs but its look-up of a name and its connect()."""

import asyncio
import contextlib
import json
import socket
from collections import defaultdict
from errno import ECONNREFUSED

import inflight.aio

from .result import Tally

_PUBLISH, _PUBACK, _PUBREC, _PUBREL, _PUBCOMP = 3, 4, 5, 6, 7
_CONNECT, _SUBSCRIBE, _PINGREQ, _DISCONNECT = 1, 8, 12, 14


class World:
    """What stands at "ports": coroutine functions (reader, writer), by number."""

    def __init__(self):
        self.ports = {}
        self._tasks = set()

    async def connect(self, port):
        """The (reader, writer) of a new connection to a port."""
        return await asyncio.open_connection(sock=self._pair(port))

    def _pair(self, port):
        if port not in self.ports:
            raise OSError(ECONNREFUSED, "nobody listens there")
        ours, theirs = socket.socketpair()
        task = asyncio.ensure_future(self._serve(self.ports[port], theirs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ours

    async def _serve(self, server, sock):
        reader, writer = await asyncio.open_connection(sock=sock)
        try:
            await server(reader, writer)
        finally:
            writer.close()

    async def _dial(self, gate, host, port, timeout):
        await asyncio.sleep(0.01)  # on its way
        return self._pair(port)

    @contextlib.contextmanager
    def reached(self):
        """Within, asyncio clients dial into this world."""
        real = inflight.aio.dial
        inflight.aio.dial = self._dial
        try:
            yield self
        finally:
            inflight.aio.dial = real


class Session:
    """What the broker keeps for a client; `clean`: until its connection ends."""

    def __init__(self, clean):
        self.clean = clean
        self.received = set()  # QoS 2 ids without their PUBREL
        self.commands = {}  # id -> payload, or None when only the PUBREL is unanswered
        self.topic = None
        self.last = 0


class Broker:
    """As much of MQTT 3.1.1 as devices need. `seen` has a Tally of each client id; on_connect() is called at each
    CONNECT."""

    def __init__(self):
        self.sessions = {}
        self.seen = defaultdict(Tally)
        self.on_connect = lambda: None
        self._writers = {}

    async def serve(self, reader, writer):
        name = None
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                first, body = await _packet(reader)
                if first >> 4 == _CONNECT:
                    name = self._connect(body, writer)
                elif first >> 4 == _DISCONNECT or self._writers.get(name) is not writer:
                    break
                else:
                    self._answer(first, body, name, writer)
                await writer.drain()
        if self._writers.get(name) is writer:
            del self._writers[name]
            self._end_clean(name)

    def restart(self):
        """All connections break; sessions are kept."""
        for name, writer in self._writers.items():
            writer.transport.abort()
            self._end_clean(name)
        self._writers.clear()

    def _end_clean(self, name):
        if self.sessions[name].clean:
            del self.sessions[name]

    def _connect(self, body, writer):
        size = int.from_bytes(body[10:12], "big")
        name = body[12 : 12 + size].decode()
        if old := self._writers.pop(name, None):
            old.transport.abort()
            self._end_clean(name)
        self.on_connect()
        self._writers[name] = writer
        clean = body[7] & 2 > 0
        if clean:
            self.sessions.pop(name, None)
        writer.write(bytes((0x20, 2, name in self.sessions, 0)))
        session = self.sessions.setdefault(name, Session(clean))
        for mid, payload in session.commands.items():
            writer.write(_publish(session.topic, mid, payload, 8) if payload else _ack(_PUBREL, mid))
        return name

    def _answer(self, first, body, name, writer):
        kind, session = first >> 4, self.sessions[name]
        if kind == _PUBLISH:
            self._published(first >> 1 & 3, body, name, writer)
        elif kind == _PINGREQ:
            writer.write(b"\xd0\0")
        elif kind == _SUBSCRIBE:
            size = int.from_bytes(body[2:4], "big")
            session.topic = body[4 : 4 + size]
            writer.write(b"\x90\x03" + body[:2] + body[4 + size :])
        elif kind == _PUBREL:
            session.received.discard(body)
            writer.write(_ack(_PUBCOMP, int.from_bytes(body, "big")))
        elif kind == _PUBREC:
            mid = int.from_bytes(body, "big")
            session.commands[mid] = None
            writer.write(_ack(_PUBREL, mid))
        elif kind == _PUBCOMP:
            session.commands.pop(int.from_bytes(body, "big"), None)

    def _published(self, qos, body, name, writer):
        at = 2 + int.from_bytes(body[:2], "big")
        mid, payload = body[at : at + 2], body[at + 2 :]
        session = self.sessions[name]
        if qos == 1 or mid not in session.received:
            self.seen[name].add(json.loads(payload)["seq"])
        if qos == 2:
            session.received.add(mid)
        writer.write(_ack(_PUBACK if qos == 1 else _PUBREC, int.from_bytes(mid, "big")))

    def command(self, name, payload):
        """A message of QoS 2 to a client; False if it has not subscribed yet."""
        session = self.sessions.get(name)
        if not session or not session.topic or len(session.commands) >= 20:
            return False
        session.last = session.last % 65535 + 1
        session.commands[session.last] = payload
        if name in self._writers:
            self._writers[name].write(_publish(session.topic, session.last, payload, 0))
        return True


def _ack(kind, mid):
    return bytes((kind << 4 | (2 if kind == _PUBREL else 0), 2, mid >> 8, mid & 255))


def _publish(topic, mid, payload, dup):
    body = len(topic).to_bytes(2, "big") + topic + mid.to_bytes(2, "big") + payload
    return bytes((_PUBLISH << 4 | 4 | dup, len(body))) + body


async def _packet(reader):
    first = (await reader.readexactly(1))[0]
    size = shift = 0
    while True:
        digit = (await reader.readexactly(1))[0]
        size |= (digit & 0x7F) << shift
        shift += 7
        if not digit & 0x80:
            return first, await reader.readexactly(size)
