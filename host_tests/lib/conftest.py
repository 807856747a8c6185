"""Fixtures for the tests of the clients."""

import socket

import pytest

import account
from host_tests.clients import Maker, automatic, clock, pump, virtual  # noqa: F401 (fixtures)
from host_tests.lib.either import AsyncMaker
from inflight.net.transport import Transport


def pytest_generate_tests(metafunc):
    asked = {name for mark in metafunc.definition.iter_markers("parametrize") for name in mark.args[:1]}
    if getattr(metafunc.module, "BOTH_CLIENTS", False) and "client_kind" in {*metafunc.fixturenames} - asked:
        metafunc.parametrize("client_kind", ["blocking", "asyncio"])


@pytest.fixture
def client_kind():
    return "blocking"


@pytest.fixture
def make(client_kind):
    maker = Maker() if client_kind == "blocking" else AsyncMaker()
    yield maker
    maker.close()


@pytest.fixture
def broker(virtual):  # noqa: F811
    """A scripted broker. No test here waits for real time."""
    return virtual


@pytest.fixture
def quick_crc(monkeypatch):
    """Makes the CRC of journals twenty times as fast."""
    account.quick_crc(monkeypatch.setattr)


@pytest.fixture
def reads(monkeypatch):
    """A list that grows with each read of a client from its socket."""
    taken = []
    receive = Transport.receive
    monkeypatch.setattr(Transport, "receive", lambda *of: taken.append(of) or receive(*of))
    return taken


@pytest.fixture
def unresponsive_port():
    """A port that neither accepts connections nor refuses them: its backlog is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        others = []
        for _ in range(4):
            others.append(socket.socket())
            others[-1].setblocking(False)
            others[-1].connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for other in others:
            other.close()
