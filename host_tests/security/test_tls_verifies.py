"""Promise: a TLS connection stands only with a broker whose certificate is by our authority, valid today and for the
name that was asked for. Each test looks at both clients on CPython and on every MicroPython there is."""

import pytest

from pico_w.certificates import Authority
from scripts import is_refused, said

KINDS = ("blocking", "asyncio")


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_broker(attempt, serve, kind):
    """Or the refusals below would prove nothing."""
    port, broker = serve("localhost")
    assert attempt(kind, port) == "delivered\n"
    assert [message.payload for message in broker.arrived] == [b"over TLS"]


@pytest.mark.parametrize("kind", KINDS)
def test_another_authority(attempt, serve, kind):
    is_refused(attempt(kind, serve("localhost", by=Authority("another"))[0]), serve("localhost")[1])


@pytest.mark.parametrize("kind", KINDS)
def test_another_host(attempt, serve, kind):
    """The right authority, but the certificate of somebody else."""
    port, broker = serve("other.example", "localhost.example", "*.localhost")
    is_refused(attempt(kind, port), broker)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("days", [(-3, -1), (1, 3)], ids=["expired", "not yet valid"])
def test_time(attempt, serve, runtime, kind, days):
    port, broker = serve("localhost", days=days)
    is_refused(attempt(kind, port), broker)


@pytest.mark.parametrize("kind", KINDS)
def test_without_an_authority_nobody_is_believed(runtime, serve, tmp_path, kind):
    port, broker = serve("localhost")
    other = tmp_path / "other.der"
    other.write_bytes(Authority("another").der)
    is_refused(said(runtime, "tls_client.py", kind, "localhost", port, other), broker)
