"""Promise: TLS connects only to a broker with a certificate by the configured authority, valid today and for the
requested host name. Each test runs both clients on CPython and on every available MicroPython."""

import pytest
import trustme

from host_tests.security.scripts import is_refused, output_of
from tools.peers.certificates import der

RUNTIMES = "cpython micropython-x86"
KINDS = ("blocking", "asyncio")
# The reasons for a refused certificate, in the words of CPython and MicroPython.
AUTHORITY = "unable to get local issuer certificate", "not correctly signed by the trusted CA"
NAME = "certificate is not valid for", "does not match with the expected CN"
EXPIRED = "has expired", "validity has expired"
EARLY = "not yet valid", "validity starts in the future"


def is_distrusted(output, broker, reasons):
    """The client ended the handshake because of the broker's certificate."""
    assert any(reason in is_refused(output, broker) for reason in reasons), output
    assert not broker.connections  # the TLS proxy connects to the broker after the handshake


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_broker(attempt, serve, kind):
    """The positive case for the tests below."""
    port, broker = serve("localhost")
    assert attempt(kind, port) == "delivered\n"
    assert [message.payload for message in broker.arrived] == [b"over TLS"]


@pytest.mark.parametrize("kind", KINDS)
def test_another_authority(attempt, serve, kind):
    port, broker = serve("localhost", by=trustme.CA())
    is_distrusted(attempt(kind, port), broker, AUTHORITY)


@pytest.mark.parametrize("kind", KINDS)
def test_another_host(attempt, serve, kind):
    """The right authority, but a certificate for another host."""
    port, broker = serve("other.example", "localhost.example", "*.localhost")
    is_distrusted(attempt(kind, port), broker, NAME)


@pytest.mark.parametrize("kind", KINDS)
def test_another_name_of_the_host(attempt, serve, kind):
    """The certificate must be for the requested name, not for another name of the same host."""
    port, broker = serve("localhost")
    is_distrusted(attempt(kind, port, host="127.0.0.1"), broker, NAME)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("days, reasons", [((-3, -1), EXPIRED), ((1, 3), EARLY)], ids=["expired", "not yet valid"])
def test_time(attempt, serve, kind, days, reasons):
    port, broker = serve("localhost", days=days)
    is_distrusted(attempt(kind, port), broker, reasons)


@pytest.mark.parametrize("kind", KINDS)
def test_without_an_authority_no_broker_is_trusted(runtime, serve, tmp_path, kind):
    port, broker = serve("localhost")
    other = tmp_path / "other.der"
    other.write_bytes(der(trustme.CA()))
    is_distrusted(output_of(runtime, "tls_client.py", kind, "localhost", port, other), broker, AUTHORITY)
