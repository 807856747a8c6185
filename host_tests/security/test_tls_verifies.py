"""Promise: a TLS connection stands only with a broker whose certificate is by our authority, valid today and for the
name that was asked for. Each test looks at both clients on CPython and on every MicroPython there is."""

import pytest
import trustme

from dev.certificates import der
from host_tests.security.scripts import is_refused, said

KINDS = ("blocking", "asyncio")
# What is wrong with the certificate, as CPython and MicroPython say it.
AUTHORITY = "unable to get local issuer certificate", "not correctly signed by the trusted CA"
NAME = "certificate is not valid for", "does not match with the expected CN"
EXPIRED = "has expired", "validity has expired"
EARLY = "not yet valid", "validity starts in the future"


def is_distrusted(told, broker, reasons):
    """The client saw the broker's certificate and ended the handshake because of it."""
    assert any(reason in is_refused(told, broker) for reason in reasons), told
    assert not broker.connections  # what stands before the broker connects when the handshake is made


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_broker(attempt, serve, kind):
    """Or the refusals below would prove nothing."""
    port, broker = serve("localhost")
    assert attempt(kind, port) == "delivered\n"
    assert [message.payload for message in broker.arrived] == [b"over TLS"]


@pytest.mark.parametrize("kind", KINDS)
def test_another_authority(attempt, serve, kind):
    port, broker = serve("localhost", by=trustme.CA())
    is_distrusted(attempt(kind, port), broker, AUTHORITY)


@pytest.mark.parametrize("kind", KINDS)
def test_another_host(attempt, serve, kind):
    """The right authority, but the certificate of somebody else."""
    port, broker = serve("other.example", "localhost.example", "*.localhost")
    is_distrusted(attempt(kind, port), broker, NAME)


@pytest.mark.parametrize("kind", KINDS)
def test_another_name_of_the_host(attempt, serve, kind):
    """The certificate has to be for the name that was asked for, not for one that leads to the same place."""
    port, broker = serve("localhost")
    is_distrusted(attempt(kind, port, host="127.0.0.1"), broker, NAME)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("days, reasons", [((-3, -1), EXPIRED), ((1, 3), EARLY)], ids=["expired", "not yet valid"])
def test_time(attempt, serve, kind, days, reasons):
    port, broker = serve("localhost", days=days)
    is_distrusted(attempt(kind, port), broker, reasons)


@pytest.mark.parametrize("kind", KINDS)
def test_without_an_authority_nobody_is_believed(runtime, serve, tmp_path, kind):
    port, broker = serve("localhost")
    other = tmp_path / "other.der"
    other.write_bytes(der(trustme.CA()))
    is_distrusted(said(runtime, "tls_client.py", kind, "localhost", port, other), broker, AUTHORITY)
