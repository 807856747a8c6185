"""A certificate authority, brokers that have its certificates, and clients as processes on each interpreter."""

import contextlib
import sys
from pathlib import Path

import pytest

HOST_TESTS = Path(__file__).resolve().parents[1]
for folder in (
    Path(__file__).parent,
    HOST_TESTS,
    HOST_TESTS / "device",
    HOST_TESTS.parent / "lib",
    HOST_TESTS.parent / "tools",
):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from broker import Automatic  # noqa: E402
from clients import broker, make, pump  # noqa: E402, F401 (fixtures)
from pico_w.certificates import Authority  # noqa: E402
from pico_w.front import front  # noqa: E402
from scripts import said  # noqa: E402


@pytest.fixture(scope="session")
def authority():
    return Authority("an authority")


@pytest.fixture
def serve(tmp_path, authority):
    """serve(*names, days=, by=): (port, plain broker behind it) of a TLS server that goes by these names."""
    with contextlib.ExitStack() as stack:

        def start(*names, days=(-1, 1), by=authority):
            behind = stack.enter_context(Automatic())
            return stack.enter_context(front(behind.port, by.context(tmp_path, *names, days=days))).port, behind

        yield start


@pytest.fixture
def attempt(runtime, tmp_path, authority):
    """attempt(kind, port, what="", host="localhost"): what a client says of its connection there."""
    ca = tmp_path / "ca.der"
    ca.write_bytes(authority.der)

    def run(kind, port, what="", host="localhost"):
        return said(runtime, "tls_client.py", kind, host, port, ca, *([what] if what else []))

    return run
