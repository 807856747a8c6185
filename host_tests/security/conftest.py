"""Fixtures: a certificate authority, brokers with its certificates, clients as processes on each interpreter."""

import contextlib

import pytest
import trustme

from host_tests.broker import Automatic
from host_tests.clients import broker, make, pump  # noqa: F401 (fixtures)
from host_tests.security.scripts import output_of
from tools.peers.certificates import der, server_context
from tools.peers.tls_proxy import tls_proxy


@pytest.fixture(scope="session")
def authority():
    return trustme.CA()


@pytest.fixture
def serve(authority):
    """serve(*names, days=, by=) starts a TLS proxy with a certificate for these names. Returns (port, broker behind
    it)."""
    with contextlib.ExitStack() as stack:

        def start(*names, days=(-1, 1), by=authority):
            behind = stack.enter_context(Automatic())
            return stack.enter_context(tls_proxy(behind.port, server_context(by, *names, days=days))).port, behind

        yield start


@pytest.fixture
def attempt(runtime, tmp_path, authority):
    """attempt(kind, port, what="", host="localhost") runs a client, and returns its output."""
    ca = tmp_path / "ca.der"
    ca.write_bytes(der(authority))

    def run(kind, port, what="", host="localhost"):
        return output_of(runtime, "tls_client.py", kind, host, port, ca, *([what] if what else []))

    return run
