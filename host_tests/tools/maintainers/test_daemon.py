"""Ports that a test has before a program of its own listens there."""

import socket

import pytest

from tools.peers.daemon import held_port


class Owner:
    pass


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
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
