"""A TLS proxy for a broker. A broker's own TLS times out after 90 s, which is too short for the handshake of an
emulated board on a busy machine."""

from tools.peers.network import Relay

_HANDSHAKE_S = 900


def tls_proxy(target, context):
    """A Relay that accepts TLS connections with the server's `context`, and forwards their data to the port
    `target`."""
    return Relay(target, ssl=context, ssl_handshake_timeout=_HANDSHAKE_S)
