"""A network and a broker within the process, for clients on a virtual clock. Connections are socket pairs, so all code
of the client runs except name resolution and connect()."""

import asyncio
import json
import socket
from collections import defaultdict
from errno import ECONNREFUSED
from unittest import mock

from tools.reference.kinds import CONNECT
from tools.reference.oracle import JudgedSession, Tally
from tools.reference.server import Connection, Message, Server
from tools.reference.wire import Stream, Violation

_WINDOW = 20  # most messages in flight to a device


class Network:
    """`ports`: the servers, coroutine functions of (reader, writer), by port number."""

    def __init__(self):
        self.ports = {}
        self._tasks = set()

    async def connect(self, port):
        """Returns (reader, writer) of a new connection to a port."""
        return await asyncio.open_connection(sock=self._pair(port))

    def _pair(self, port):
        if port not in self.ports:
            raise OSError(ECONNREFUSED, "connection refused")
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

    async def _open(self, waiter, host, port, timeout):
        await asyncio.sleep(0.01)  # latency
        return self._pair(port)

    def installed(self):
        """A context in which asyncio clients connect through this network."""
        return mock.patch("inflight.client.aio.open_socket", self._open)


class _Session(JudgedSession):
    client_knows = True  # the client read the CONNACK that began this session, or had no session before


class _Link:
    """A connection of a client: its reference Connection, and its writer."""

    def __init__(self, server, writer):
        self.connection = Connection(server)
        self.writer = writer
        self.name = None
        self.new = False  # this connection began its session

    def flush(self):
        while self.connection.send_queued():
            pass
        if not self.writer.is_closing():
            self.writer.write(self.connection.data_to_send())


class Broker:
    """The reference server in this network. `seen`: a Tally for each client id. `violations`: the clients' violations
    of the standard. `excused`: for each client id, the commands that were lost with a session. on_connect() is called
    at each CONNECT."""

    def __init__(self):
        self._server = Server(_Session, _WINDOW)
        self.seen = defaultdict(Tally)
        self.excused = defaultdict(set)
        self.violations = []
        self.on_connect = lambda: None
        self._links = {}  # by client id
        self._commanded = set()  # client ids that received a command, and may remember its Message ID

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
        if link.connection.session is not self._server.sessions.get(link.name):
            self._excuse(link.name, link.connection.session)  # a clean session ends with its connection

    def _excuse(self, name, session):
        # Queued and in-flight messages to the client end with the session.
        if session:
            on_its_way = [message for message, _ in session.flight.values()] + session.queue
            self.excused[name].update(int(message.payload) for message in on_its_way)

    def _received(self, p, link):
        if p.kind == CONNECT:
            self._begin(p, link)
        elif link.new:
            link.connection.session.client_knows = True
        # A connection that a newer one has replaced is not read any more.
        if self._links.get(link.name) is link and link.connection.packet_received(p):
            self.seen[link.name].add(json.loads(p.payload)["seq"])
        if p.kind == CONNECT and link.new:
            link.connection.session.client_knows = p.clean or link.name not in self._commanded

    def _begin(self, p, link):
        link.name = p.client_id
        if old := self._links.pop(link.name, None):
            old.writer.transport.abort()
        self.on_connect()
        self._links[link.name] = link
        old_session = self._server.sessions.get(link.name)
        link.new = p.clean or not old_session
        if p.clean:
            self._excuse(link.name, old_session)

    def restart(self):
        """Breaks all connections, and keeps the sessions."""
        for link in self._links.values():
            link.writer.transport.abort()
        self._links.clear()

    def command(self, name, payload):
        """Sends a QoS 2 message to a client. Returns False if it has not subscribed, or its queue is full."""
        link = self._links.get(name)
        session = link.connection.session if link else self._server.sessions.get(name)
        if not session or not session.client_knows or not session.subscriptions:
            return False
        if len(session.flight) + len(session.queue) >= _WINDOW:
            return False
        self._commanded.add(name)
        session.queue.append(Message(next(iter(session.subscriptions)), payload, 2, False))
        if link:
            link.flush()
        return True
