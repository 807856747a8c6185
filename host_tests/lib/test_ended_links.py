"""Failed connections: both clients close the socket, and asyncio's closes one without answers to pings."""

import asyncio
import errno
import socket
import ssl

import pytest

from host_tests.lib.aio_clients import run
from inflight import AsyncClient
from inflight.cpython import stream
from inflight.net.transport import Transport
from nor import NorFlash
from tools.reference.kinds import PUBLISH
from tools.reference.wire import connack, puback
from tools.soak.clock import virtual_time


class Wrapping:
    """A verifying TLS context that fails to wrap any socket; `socks`: the sockets that it should have wrapped."""

    verify_mode = ssl.CERT_REQUIRED
    check_hostname = True

    def __init__(self, error):
        self.socks = []
        self._error = error

    def wrap_socket(self, sock, **_):
        self.socks.append(sock)
        raise self._error


FAILURES = [OSError(errno.ENOMEM), ValueError("no such host name"), MemoryError()]


def is_let_go(tls):
    assert len(tls.socks) == 1
    assert tls.socks[0].fileno() == -1


@pytest.mark.parametrize("error", FAILURES, ids=repr)
def test_a_socket_that_cannot_be_wrapped_is_closed(broker, make, error):
    tls = Wrapping(error)
    client = make(broker.port, tls=tls)
    with pytest.raises(type(error)):
        client.connect()
    is_let_go(tls)


@pytest.mark.parametrize("error", FAILURES, ids=repr)
def test_a_socket_that_cannot_be_wrapped_is_closed_by_asyncio(broker, error):
    tls = Wrapping(error)
    client = AsyncClient("127.0.0.1", clean_session=True, port=broker.port, tls=tls, on_error=lambda e: None)

    async def scene():
        with pytest.raises(type(error)):
            await client.connect()
        is_let_go(tls)
        await client.disconnect()

    run(scene())


@pytest.mark.parametrize(("qos", "n"), [(0, 8), (0, 9), (1, 9)])
def test_an_interrupt_within_a_packet_ends_the_connection(broker, make, monkeypatch, qos, n):
    """Ctrl-C comes while the socket takes no more. No packet follows there: neither another one, nor one of QoS 0 of
    which only the payload would be exchanged."""
    client = make(broker.port)
    write, wait = stream.write, Transport.wait
    taken = [5, 0]

    def full(self, buf, at, n):
        return write(self, buf, at, min(n, taken.pop(0))) if taken else write(self, buf, at, n)

    def interrupted(self, ms, writing=False):
        if writing:
            raise KeyboardInterrupt
        wait(self, ms)

    def script(b):
        b.welcome()
        b.expect(PUBLISH, payload=b"1" * 8)
        b.expect_close()

    with broker.play(script):
        client.connect()
        client.publish("t", b"1" * 8)
        monkeypatch.setattr(stream, "write", full)
        monkeypatch.setattr(Transport, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.publish("t", b"2" * n, qos)
        with pytest.raises(OSError, match="not connected"):
            client.publish("t", b"3" * n)


def test_a_socket_that_cannot_be_waited_for_is_closed(broker, monkeypatch):
    ours = socket.create_connection(("127.0.0.1", broker.port))

    def poller():
        raise MemoryError

    monkeypatch.setattr("inflight.net.transport.poller", poller)
    with pytest.raises(MemoryError):
        Transport(ours, "127.0.0.1", None)
    assert ours.fileno() == -1


def test_asyncio_closes_a_connection_without_pingresp(monkeypatch):
    """[MQTT-3.12.4-1] If PINGREQ is not answered within `timeout_ms`, the connection is replaced."""
    brokers = []  # the broker's sockets, and when each connection was made

    async def dial(*_):
        ours, theirs = socket.socketpair()
        theirs.sendall(connack(0))
        brokers.append((theirs, asyncio.get_running_loop().time()))
        return ours

    monkeypatch.setattr("inflight.client.aio.open_socket", dial)
    options = {"keepalive": 4, "timeout_ms": 900, "backoff_ms": (0, 0), "on_error": lambda e: None}

    async def scene():
        async with AsyncClient("broker", clean_session=True, **options):
            await asyncio.sleep(5)

    with virtual_time() as loop:
        loop.run_until_complete(scene())
    (first, begun), (second, ended) = brokers
    assert first.recv(1000).endswith(b"\xc0\x00")
    assert (
        3.9 <= ended - begun < 4.7
    )  # PINGREQ is sent after three quarters of the keep alive; timers have a resolution
    first.close()
    second.close()


def test_flash_that_fails_once_delays_the_next_attempt_once(virtual, make):
    flash = NorFlash(8, 1024, 64)
    client = make(virtual.port, flash, backoff_ms=(1000, 1000))

    def script(b):
        b.welcome()
        b.send(puback(b.expect(PUBLISH).mid))
        b.expect_close()
        b.welcome(1)
        b.send(puback(b.expect(PUBLISH, dup=1).mid))
        b.goodbye()

    with virtual.play(script):
        client.connect()
        client.publish("t", b"x", 1)
        flash.fail_at(0)  # the mark of the acknowledged message
        while client.counters()["connects"] < 2 and len(client.errors) < 20:
            client.run_for(100)
        assert client.drain(60_000)
        client.disconnect()
    assert [e.args[0] for e in client.errors] == [errno.EIO]
