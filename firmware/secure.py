# TLS, which costs RAM: imported only by devices that use it.

import sys


def _read(path):
    with open(path, "rb") as f:
        return f.read()


def context(ca, cert=None, key=None):
    """Returns an SSLContext that accepts brokers with a certificate by the CA in file `ca`, and
    shows the certificate in file `cert` with its `key`. Raises OSError, ValueError."""
    if sys.implementation.name == "micropython":
        try:
            import tls
        except ImportError:  # before 1.23
            import ssl as tls

        new = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
        new.load_verify_locations(_read(ca))
        if cert:
            new.load_cert_chain(_read(cert), _read(key))
        return new
    import ssl

    data = _read(ca)
    pem = data.startswith(b"-----")
    new = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    new.load_verify_locations(cadata=data.decode() if pem else data)
    if cert:
        new.load_cert_chain(cert, key)
    return new
