"""TLS in front of a broker. A broker's own gives up after a minute and a half, in which an emulated board does not get
through the handshake when the machine has other things to do as well."""

from dev.demo.network import Relay

_HANDSHAKE_S = 900


def tls_relay(target, context):
    """A Relay that takes TLS connections, for which `context` is the server's, and passes what they say to the port
    `target`."""
    return Relay(target, ssl=context, ssl_handshake_timeout=_HANDSHAKE_S)
