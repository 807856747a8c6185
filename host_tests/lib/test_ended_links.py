"""Failed connections: both clients close the socket."""

import errno
import socket
import ssl
from unittest.mock import Mock

import pytest

from inflight.cpython import stream
from inflight.net.transport import Transport
from nor import NorFlash
from tools.reference.kinds import PUBLISH
from tools.reference.wire import puback


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


@pytest.mark.parametrize("client_kind", ["blocking", "asyncio"])
def test_a_socket_that_cannot_be_wrapped_is_closed(broker, make):
    for error in (OSError(errno.ENOMEM), ValueError("no such host name"), MemoryError()):
        tls = Wrapping(error)
        client = make(broker.port, tls=tls)
        with pytest.raises(type(error)):
            client.connect()
        assert [sock.fileno() for sock in tls.socks][:1] == [-1]


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


def test_a_socket_that_cannot_be_waited_for_is_closed(monkeypatch):
    """One without TCP_NODELAY, too."""
    ours, theirs = socket.socketpair()
    monkeypatch.setattr("inflight.net.transport.poller", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        Transport(ours, "127.0.0.1", None)
    assert ours.fileno() == -1
    theirs.close()


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
