"""Lines of mosquitto's configuration for TLS."""

from tools.peers import certificates


def tls(folder, ca, name):
    """TLS, with a certificate by the authority for this host name."""
    files = certificates.write(folder, ca, name)
    return [f"{what} {file}" for what, file in zip(("cafile", "certfile", "keyfile"), files, strict=True)]
