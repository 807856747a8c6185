"""A network and a broker within the process, for clients on a virtual clock: the sockets are pairs of the kernel's own,
so that all of the client runs but its look-up of a name and its connect()."""

import asyncio
import contextlib
import json
import socket
from collections import defaultdict
from errno import ECONNREFUSED

import inflight.aio
from reference.oracle import JudgedSession, Tally
from reference.server import Connection, Message, Server
from reference.wire import CONNECT, Stream, Violation

_WINDOW = 20  # messages on their way to a device


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
        real = inflight.aio.open_socket
        inflight.aio.open_socket = self._dial
        try:
            yield self
        finally:
            inflight.aio.open_socket = real


class _Link:
    """A connection of a client: the server's view of it, and its writer."""

    def __init__(self, server, writer):
        self.connection = Connection(server)
        self.writer = writer
        self.name = None

    def flush(self):
        while self.connection.hand_out():
            pass
        if not self.writer.is_closing():
            self.writer.write(self.connection.data_to_send())


class Broker:
    """The reference server in this world. `seen` has a Tally of each client id, `violations` what clients did that the
    standard forbids; on_connect() is called at each CONNECT."""

    def __init__(self):
        self._server = Server(JudgedSession, _WINDOW)
        self.seen = defaultdict(Tally)
        self.violations = []
        self.on_connect = lambda: None
        self._links = {}  # by client id

    async def serve(self, reader, writer):
        stream, link = Stream(), _Link(self._server, writer)
        try:
            while data := await reader.read(65536):
                stream.bytes_received(data)
                while p := stream.next_packet():
                    self._received(p, link)
                link.flush()
                await writer.drain()
        except OSError:
            pass
        except Violation as violation:
            self.violations.append(f"{link.name}: {violation}")
        if self._links.get(link.name) is link:
            del self._links[link.name]

    def _received(self, p, link):
        if p.kind == CONNECT:
            self._begin(p, link)
        # What comes on a connection whose place a newer one has taken was never read.
        if self._links.get(link.name) is link and link.connection.packet_received(p):
            self.seen[link.name].add(json.loads(p.payload)["seq"])

    def _begin(self, p, link):
        link.name = p.client_id
        if old := self._links.pop(link.name, None):
            old.writer.transport.abort()
        self.on_connect()
        self._links[link.name] = link

    def restart(self):
        """All connections break; sessions are kept."""
        for link in self._links.values():
            link.writer.transport.abort()
        self._links.clear()

    def command(self, name, payload):
        """A message of QoS 2 to a client; False if it has not subscribed, or takes none."""
        session = self._server.sessions.get(name)
        if not session or not session.subscriptions or len(session.flight) + len(session.queue) >= _WINDOW:
            return False
        session.queue.append(Message(next(iter(session.subscriptions)), payload, 2, False))
        if name in self._links:
            self._links[name].flush()
        return True
