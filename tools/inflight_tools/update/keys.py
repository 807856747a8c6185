"""The keys that sign releases: RSA-3072. The private key is a PEM file; a device has the public one in its
configuration."""

import base64
import os
from pathlib import Path

import typer
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from inflight_tools import options
from inflight_tools.output import failing
from inflight_tools.settings import keep_from_git

BITS = 3072
PASSPHRASE = "INFLIGHT_KEY_PASSPHRASE"
DEFAULT = Path("release.key")  # file of the private key


def _passphrase():
    return os.environ.get(PASSPHRASE, "").encode() or None


def generate(path):
    """Writes a new private key to the file `path`, which only its owner may read; encrypted if there is a pass phrase.
    FileExistsError rather than to replace one."""
    phrase = _passphrase()
    encryption = BestAvailableEncryption(phrase) if phrase else NoEncryption()
    key = rsa.generate_private_key(65537, BITS)
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    return key


def load(path):
    """The private key in the file `path`. ValueError, in one line, if there is none that signs releases."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name the key's file")
    if not path.is_file():
        raise ValueError(f"no file {path}: `inflight keys --signing-key {path}` makes one")
    try:
        key = load_pem_private_key(path.read_bytes(), _passphrase())
    except TypeError:
        raise ValueError(f"{path}: the pass phrase goes into the variable {PASSPHRASE}, for an encrypted key") from None
    except ValueError:
        raise ValueError(f"{path}: not a private key in PEM, or another pass phrase than in {PASSPHRASE}") from None
    if not isinstance(key, rsa.RSAPrivateKey) or key.key_size != BITS or key.public_key().public_numbers().e != 65537:
        raise ValueError(f"{path}: not an RSA key of {BITS} bits: `inflight keys` makes one")
    return key


def public(key):
    """The public key as a device's configuration has it: its modulus in base64."""
    return base64.b64encode(key.public_key().public_numbers().n.to_bytes(BITS // 8, "big")).decode()


def sign(key, body):
    """The signature of the bytes `body`."""
    return key.sign(body, padding.PKCS1v15(), hashes.SHA256())


def main(signing_key: options.SigningKey = DEFAULT):
    """Makes a key that signs releases, unless the file exists, and prints its public part for "update_keys" in a
    device's configuration. Without a pass phrase, a key that git could track causes a note, one that it tracks an
    error."""
    with failing():
        new = not signing_key.exists()
        found = generate(signing_key) if new else load(signing_key)
        if not _passphrase():  # what is encrypted may be in a repository
            keep_from_git(signing_key, "is a private key")
    typer.echo(f"{signing_key}: {'written; ' if new else ''}keep it secret, and a copy of it in a safe place", err=True)
    typer.echo(f'"update_keys": ["{public(found)}"]')
