"""Where the broker of a configuration is, and how to log in there."""

import ssl
from dataclasses import dataclass


@dataclass(frozen=True, repr=False)  # no repr: it would show the password
class Broker:
    """Where a device publishes, and how to log in there."""

    host: str
    port: int
    root: str
    device: str | None  # None: the board's own identity
    user: str | None
    password: str | None
    tls: ssl.SSLContext | None

    @property
    def place(self):
        return f"{self.host}:{self.port}"


def broker_of(fields, override=None, ca=None, cert=None, key=None):
    """The Broker of a configuration, a dict that was checked. `override` is "host" or "host:port", where this computer
    reaches it, if not as the device does; the rest are files in PEM or DER. Raises ValueError."""
    tls = _context(ca, cert, key) if fields.get("tls_ca") else None
    host, port = fields["host"], fields.get("port") or (8883 if tls else 1883)
    if override:
        host, _, number = override.partition(":")
        if not host or number and not number.isdigit():
            raise ValueError(f"BROKER={override}: write a host, or host:port")
        port = int(number) if number else port
    root = fields.get("root") or "inflight"
    return Broker(host, port, root, fields.get("device"), fields.get("user"), fields.get("password"), tls)


def _context(ca, cert, key):
    if not ca:
        raise ValueError("the configuration has tls_ca: name the CA's file with CA=<PEM or DER file>")
    with open(ca, "rb") as f:
        data = f.read()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=data.decode() if data.startswith(b"-----") else data)
    if cert:
        try:
            context.load_cert_chain(cert, key)
        except ssl.SSLError:
            raise ValueError(f"{cert} and {key}: as PEM they log in from here too") from None
    return context
