# What speaks on the other end if it is no MQTT broker: the wrong port is a common mistake. Loaded when the first bytes
# of a connection are no CONNACK.

from .packet import ProtocolError

_KNOWN = (
    (b"HTTP", "this is HTTP: for a WebSocket give path=, else another port, like 1883"),
    (b"<", "this is HTTP: for a WebSocket give path=, else another port, like 1883"),
    (b"SSH-", "this is SSH: give another port, like 1883"),
    (b"\x15\x03", "this is TLS: give tls=, or another port, like 1883"),
    (b"\x16\x03", "this is TLS: give tls=, or another port, like 1883"),
)


def explained(error, decoder):
    """Returns a ProtocolError that tells more than `error`: which protocol the first bytes in the decoder belong to."""
    first = bytes(decoder.buf[: min(decoder.end, 16)])
    for beginning, text in _KNOWN:
        if first.startswith(beginning[: max(2, len(first))]):  # not all of it may be there
            return ProtocolError(text)
    return ProtocolError("%s; the port of an MQTT broker? The first bytes are %r" % (error, first))
