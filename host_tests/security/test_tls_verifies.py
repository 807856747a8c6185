"""Promise: TLS connects only to a broker with a certificate by the configured authority, valid today and for the
requested host name. Each test runs both clients on CPython and on every available MicroPython."""

import pytest
import trustme

from host_tests.security.scripts import is_refused

RUNTIMES = "cpython micropython-x86"
KINDS = ("blocking", "asyncio")
# The reasons for a refused certificate, in the words of CPython and MicroPython.
AUTHORITY = "unable to get local issuer certificate", "not correctly signed by the trusted CA"
NAME = "certificate is not valid for", "does not match with the expected CN"
EXPIRED = "has expired", "validity has expired"
EARLY = "not yet valid", "validity starts in the future"


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_broker(attempt, serve, kind):
    """The positive case for the tests below."""
    port, broker = serve("localhost")
    assert attempt(kind, port) == "delivered\n"
    assert [message.payload for message in broker.arrived] == [b"over TLS"]


# What the broker is asked for, what its certificate is about, when it is valid, who signed it.
DISTRUSTED = {
    "another authority": ("localhost", ("localhost",), (-1, 1), trustme.CA(), AUTHORITY),
    "another host": ("localhost", ("other.example", "localhost.example", "*.localhost"), (-1, 1), None, NAME),
    "another name of the host": ("127.0.0.1", ("localhost",), (-1, 1), None, NAME),
    "expired": ("localhost", ("localhost",), (-3, -1), None, EXPIRED),
    "not yet valid": ("localhost", ("localhost",), (1, 3), None, EARLY),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("why", DISTRUSTED)
def test_distrusted(attempt, serve, authority, kind, why):
    """The client ends the handshake because of the broker's certificate."""
    host, names, days, by, reasons = DISTRUSTED[why]
    port, broker = serve(*names, days=days, by=by or authority)
    output = is_refused(attempt(kind, port, host=host), broker)
    assert any(reason in output for reason in reasons), output
    assert not broker.connections  # the TLS proxy connects to the broker after the handshake
