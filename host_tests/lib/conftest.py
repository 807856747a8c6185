"""Fixtures of the client's tests: a scripted broker, and clients."""

import sys
from pathlib import Path

import pytest

HOST_TESTS = Path(__file__).resolve().parents[1]
for folder in (
    HOST_TESTS,
    HOST_TESTS / "device",
    HOST_TESTS / "crash",
    HOST_TESTS.parent / "lib",
    HOST_TESTS.parent / "tools",
):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from clients import broker, make, pump, virtual  # noqa: E402, F401 (fixtures)
from cutting import quick_sum  # noqa: E402
from inflight import Journal  # noqa: E402
from inflight.transport import Transport  # noqa: E402


@pytest.fixture
def quick_crc(monkeypatch):
    """The journal's CRC loop, twenty times as fast."""
    monkeypatch.setattr(Journal, "_sum", quick_sum)


@pytest.fixture
def looks(monkeypatch):
    """A list that grows with each look that a client takes at its socket."""
    taken = []
    receive = Transport.receive
    monkeypatch.setattr(Transport, "receive", lambda *of: taken.append(of) or receive(*of))
    return taken
