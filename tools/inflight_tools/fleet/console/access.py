"""Who may read the console."""

import base64
import hmac
import ipaddress
import urllib.parse


def is_loopback(host):
    """Whether `host` is an address of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_of_another_site(headers):
    """Whether a page of another site asks, without a person who follows a link there."""
    if headers.get("Sec-Fetch-Site") not in ("cross-site", "same-site"):
        return False
    return (headers.get("Sec-Fetch-Dest"), headers.get("Sec-Fetch-User")) != ("document", "?1")


class Access:
    """password: what HTTP Basic has to give, for any user; header: one that a proxy adds, with the name of whoever it
    has let in, and which counts only from an address in the network `proxy`; None: neither. Raises ValueError if
    others than this machine reach `host`, and there is neither."""

    def __init__(self, host, password=None, header=None, proxy="127.0.0.0/8"):
        self._password, self._header, self._proxy = password, header, ipaddress.ip_network(proxy)
        if not (password or header or is_loopback(host)):
            raise ValueError(
                f"{host} is not of this machine alone, and the console shows all of the fleet: give a password with "
                "--viewer-password-file, or --proxy-header for a proxy that lets in whom it knows"
            )

    @property
    def asks(self):
        """Whether a browser has to ask for a password."""
        return bool(self._password)

    def permits(self, peer, headers):
        """Whether a request with `headers` from the address `peer` may be answered."""
        if self._password and self._has_password(headers.get("Authorization", "")):
            return True
        if self._header:
            address = ipaddress.ip_address(peer.partition("%")[0])
            address = getattr(address, "ipv4_mapped", None) or address
            if address in self._proxy and headers.get(self._header, "").strip():
                return True
        if self._password or self._header:
            return False
        # A page of another site whose name leads to this machine may not read it.
        try:
            return is_loopback(urllib.parse.urlsplit(f"//{headers.get('Host', '')}").hostname or "")
        except ValueError:
            return False

    def _has_password(self, text):
        kind, _, given = text.partition(" ")
        try:
            user_and_password = base64.b64decode(given.encode(), validate=True)
        except ValueError:
            return False
        given = user_and_password.partition(b":")[2]
        return kind.lower() == "basic" and hmac.compare_digest(given, self._password.encode())
