"""Certificate authorities for an hour, and brokers that they know."""

import datetime
import ssl
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _sign(name, key, issuer, issuer_key, names, days=(-1, 1)):
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=days[0]))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass
class Authority:
    """Signs certificates. Elliptic curves: an RP2040 does them in a second."""

    name: str

    def __post_init__(self):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _sign(_name(self.name), self._key, _name(self.name), self._key, ())

    @property
    def der(self):
        """What a device needs to know it."""
        return self._certificate.public_bytes(serialization.Encoding.DER)

    @property
    def pem(self):
        """What a host needs to know it."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def context(self, folder, *names, days=(-1, 1)):
        """What a server needs that goes by these host names, from one day to another, counted from now; its files go
        to `folder`."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = _sign(_name(names[0]), key, _name(self.name), self._key, names, days)
        shape = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        (folder / "server.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *shape))
        (folder / "server.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.crt", folder / "server.key")
        return context
