"""TLS by trustme's authorities. They sign with elliptic curves: an RP2040 does that in a second."""

import datetime
import ssl


def der(ca):
    """The authority's certificate as a board reads it."""
    return ssl.PEM_cert_to_DER_cert(ca.cert_pem.bytes().decode())


def client_context(ca):
    """For a client that trusts the authority, and nobody else."""
    return ssl.create_default_context(cadata=der(ca))


def server_context(ca, *names, days=(-1, 1)):
    """For a server that goes by these names, from one day to another, counted from now."""
    first, last = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=day) for day in days)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names, not_before=first, not_after=last).configure_cert(context)
    return context


def write(folder, ca, name):
    """The paths of PEM files: the authority's certificate, a new one that it signed, and the key of that."""
    files = [str(folder / f"{name}.{kind}") for kind in ("ca", "crt", "key")]
    leaf = ca.issue_cert(name)
    for blob, file in zip((ca.cert_pem, *leaf.cert_chain_pems, leaf.private_key_pem), files, strict=True):
        blob.write_to_path(file)
    return files
