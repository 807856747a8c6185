"""Ports that a test has before a program of its own listens there."""

import socket

import pytest

from tools.peers.daemon import held_port


class Owner:
    pass


@pytest.fixture(params=["stream", "datagram"])
def kind(request):
    return {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM}[request.param]


def test_a_held_port_goes_to_no_other_and_refuses_connections(kind):
    owner = Owner()
    port = held_port(owner, kind)
    with socket.socket(type=kind) as other, pytest.raises(OSError):
        other.bind(("127.0.0.1", port))
    if kind == socket.SOCK_STREAM:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    del owner
    with socket.socket(type=kind) as other:
        other.bind(("127.0.0.1", port))


def test_a_daemon_shares_it_and_what_comes_is_for_the_daemon(kind):
    owner = Owner()
    with socket.socket(type=kind) as daemon, socket.socket(type=kind) as client:
        daemon.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        daemon.bind(("127.0.0.1", held_port(owner, kind)))
        if kind == socket.SOCK_STREAM:
            daemon.listen()
        client.connect(daemon.getsockname())
        client.sendall(b"for the daemon")
        with daemon.accept()[0] if kind == socket.SOCK_STREAM else daemon.dup() as come:
            assert come.recv(100) == b"for the daemon"
