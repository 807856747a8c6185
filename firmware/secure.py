# TLS; it costs RAM, so it is imported only if the configuration uses it.

import sys


def _read(field, path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        raise ValueError("%s: no file %s: copy it to the device, or correct the name" % (field, path))


def context(ca, cert=None, key=None):
    """Returns an SSLContext that accepts brokers with a certificate by the CA in file `ca`, and presents the
    certificate in file `cert` with its `key`. Raises ValueError."""
    authority = _read("tls_ca", ca)
    chain = cert and (_read("tls_cert", cert), _read("tls_key", key))
    make = _micropython if sys.implementation.name == "micropython" else _cpython
    try:
        return make(authority, chain, cert, key)
    except (OSError, ValueError) as e:
        raise ValueError("tls: write certificates and keys as DER files without a password (%s)" % e)


def _micropython(authority, chain, cert, key):
    try:
        import tls
    except ImportError:  # before 1.23
        import ssl as tls

    new = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
    new.load_verify_locations(authority)
    if chain:
        new.load_cert_chain(*chain)
    return new


def _cpython(authority, chain, cert, key):
    import ssl

    pem = authority.startswith(b"-----")
    new = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    new.load_verify_locations(cadata=authority.decode() if pem else authority)
    if chain:
        new.load_cert_chain(cert, key)
    return new
