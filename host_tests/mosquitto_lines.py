"""Lines of mosquitto's configuration for authentication and TLS."""

import base64
import hashlib

from dev import certificates


def only(folder, user, password):
    """Only this user with this password may connect."""
    salt = b"salt" * 3
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101, 64)
    file = folder / "passwords"
    file.write_text(f"{user}:$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n")
    return f"password_file {file}", "allow_anonymous false"


def tls(folder, ca, name):
    """TLS, with a certificate by the authority for this host name."""
    files = certificates.write(folder, ca, name)
    return [f"{what} {file}" for what, file in zip(("cafile", "certfile", "keyfile"), files, strict=True)]
