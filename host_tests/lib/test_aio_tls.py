"""The asyncio client with TLS. Certificates are made here: a good one, one of an unknown authority, one for another
host."""

import asyncio
import os
import threading

import pytest
import trustme

from host_tests.broker import Broker, Gone
from host_tests.lib import aio_clients
from host_tests.lib.aio_clients import STRICT, play, run, sends, times_out, until
from host_tests.processes import started
from tools.peers.certificates import client_context, server_context
from tools.reference.kinds import PINGREQ

pytestmark = STRICT
AUTHORITY = trustme.CA()


class TlsBroker(Broker):
    def __init__(self, name="127.0.0.1"):
        super().__init__()
        self._context = server_context(AUTHORITY, name)

    def accept(self):
        connection = super().accept()
        try:
            connection.sock = self._context.wrap_socket(connection.sock, server_side=True)
        except OSError as error:
            raise Gone(str(error)) from None
        return connection


@pytest.fixture
def serve():
    with started(TlsBroker, TlsBroker.close) as start:
        yield start


def make(port, ca=AUTHORITY, **options):
    return aio_clients.make(port, tls=client_context(ca), **options)


def test_silent_peer(broker, monkeypatch, reads):
    """The broker accepts the connection and never answers the handshake: a time-out, and no busy waiting."""
    client = make(broker.port, timeout_ms=200)
    sent = sends(monkeypatch, 20)

    async def scene():
        await times_out(client.connect())
        await client.disconnect()

    def script(b):
        b.accept()
        b.connection.fill()

    play(broker, script, scene)
    assert sent and len(reads) < 20


def test_bytes_that_are_no_tls(serve):
    """They end the connection."""
    broker = serve()
    client = make(broker.port, reconnect=False)

    async def scene():
        await client.connect()
        with pytest.raises(OSError):
            await client.ping()
        await client.disconnect()

    def script(b):
        b.welcome()
        b.expect(PINGREQ)
        os.write(b.connection.sock.fileno(), b"HTTP/1.1 400 Bad Request\r\n\r\n")

    play(broker, script, scene)


@pytest.mark.parametrize("when", ["dial", "handshake", "connect"])
def test_disconnect_during_the_handshake(serve, when):
    """It closes the socket."""
    broker = serve() if when == "connect" else Broker()
    client = make(broker.port)
    came = threading.Event()

    async def scene():
        waiting = asyncio.create_task(client.connect())
        if when == "dial":
            await asyncio.sleep(0)
        else:
            await until(came.is_set)
        await client.disconnect()
        with pytest.raises(OSError):
            await waiting

    def script(b):
        with pytest.raises(Gone):
            b.accept()
            while True:
                b.connection.fill()
                came.set()

    try:
        if when == "dial":
            run(scene())
        else:
            play(broker, script, scene)
    finally:
        broker.close()
