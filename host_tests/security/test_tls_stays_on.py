"""Promise: verification cannot be turned off by accident, neither before a client is created nor afterwards."""

import ssl
import warnings

import pytest

from host_tests.security.scripts import is_refused
from inflight import AsyncClient, Client

RUNTIMES = "cpython micropython-x86"
KINDS = ("blocking", "asyncio")
REFUSAL = "refused: ValueError: tls does not verify"


def loose(**attributes):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name, value in attributes.items():
        setattr(context, name, value)
    return context


def old():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # deprecated, but programs use it
        return ssl.SSLContext(ssl.PROTOCOL_TLS)


LOOSE = {
    "CERT_NONE": loose(check_hostname=False, verify_mode=ssl.CERT_NONE),
    "CERT_OPTIONAL": loose(verify_mode=ssl.CERT_OPTIONAL),
    "any host": loose(check_hostname=False),
    "PROTOCOL_TLS, which does neither": old(),
}


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize("which", LOOSE)
def test_a_context_that_does_not_verify(client, which):
    with pytest.raises(
        ValueError, match="tls does not verify: set verify_mode = CERT_REQUIRED, check_hostname, and load"
    ):
        client("127.0.0.1", "d", clean_session=True, tls=LOOSE[which])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["none", "optional later"])
def test_on_every_interpreter(attempt, serve, kind, what):
    """Also if the context verified when the client was created, and was changed before it connected."""
    port, broker = serve("other.example")
    assert is_refused(attempt(kind, port, what), broker).startswith(REFUSAL)


@pytest.mark.parametrize("kind", KINDS)
def test_a_host_name_that_is_no_longer_checked(attempt, serve, runtime, kind):
    """MicroPython has no such switch: it always checks."""
    port, broker = serve("other.example")
    output = is_refused(attempt(kind, port, "name later"), broker)
    assert runtime.micropython or output.startswith(REFUSAL)
