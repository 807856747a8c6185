"""TLS contexts of scripts that run on every interpreter."""

import sys

if sys.implementation.name == "micropython":
    import tls as ssl
else:
    import ssl


def trusting(path):
    """A context of a client that trusts the authority in file `path` (DER)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with open(path, "rb") as file:
        data = file.read()
    if sys.implementation.name == "micropython":
        context.load_verify_locations(data)
    else:
        context.load_verify_locations(cadata=data)
    return context
