"""Fixtures for several folders of tests: a scripted broker, and clients with short time-outs."""

import contextlib
import functools
import os
import socket
import time

import pytest

from host_tests.broker import PATIENCE_S, Broker
from host_tests.virtual import VirtualAutomatic, VirtualBroker
from inflight import Client, Journal, RamFlash
from tools.clock import TurnsClock


@pytest.fixture
def broker():
    broker = Broker()
    yield broker
    broker.close()


@pytest.fixture
def clock(monkeypatch):
    """The virtual time of clients."""
    clock = TurnsClock()
    monkeypatch.setattr("inflight.cpython.time", clock)
    monkeypatch.setattr("inflight.net.transport.poller", clock.poller())
    return clock


@pytest.fixture
def virtual(clock):
    """A scripted broker on virtual time."""
    broker = VirtualBroker(clock)
    yield broker
    broker.close()


@pytest.fixture
def automatic(clock):
    """automatic(faults, ...): a complete broker on virtual time, for `with`."""
    return functools.partial(VirtualAutomatic, clock)


def cut_power(client):
    """Ends the client by a power cut: its connection closes without DISCONNECT; only its flash remains."""
    client._close()


def narrow(client):
    """Gives the socket of a connected client a small send buffer."""
    with socket.socket(fileno=os.dup(client._transport.file.fileno())) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)


@contextlib.contextmanager
def no_network():
    """Meanwhile nobody knows the name of the broker: each attempt to connect fails at once. Yields a list that grows
    with the host and port of each."""
    asked = []

    def fail(host, port, *_):
        asked.append((host, port))
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", fail)
        yield asked


class Maker:
    """make(port, ...) returns a Client with a RAM journal; its attribute `errors` lists the arguments of on_error."""

    client_class = Client

    def __init__(self):
        self.clients = []

    def __call__(self, port, device=None, client_id="dev", host="127.0.0.1", **options):
        """`device`: the flash of the journal, None: a new one, False: a client without a journal."""
        journal = None if device is False else Journal(RamFlash() if device is None else device)
        errors = []
        settings = {"timeout_ms": PATIENCE_S * 1000, "backoff_ms": (0, 0), "keepalive": 0, "on_error": errors.append}
        client = self.client_class(host, client_id, journal, port=port, **{**settings, **options})
        vars(client)["errors"] = errors
        self.clients.append(client)
        return client

    def close(self):
        for client in self.clients:
            self.cut_power(client)

    def cut_power(self, client):
        """As the function."""
        cut_power(client)


@pytest.fixture
def make():
    maker = Maker()
    yield maker
    maker.close()


@pytest.fixture
def pump():
    """pump(client, condition): runs the client until the condition holds, at most for a minute."""

    def run(client, condition, ms=60_000):
        end = time.monotonic() + ms / 1000
        while not condition():
            assert time.monotonic() < end, f"did not happen in {ms} ms; errors: {getattr(client, 'errors', [])[-3:]}"
            client.run_for(2)

    return run
