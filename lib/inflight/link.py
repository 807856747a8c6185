# One TCP or TLS connection to the broker. Every wait is bounded, nothing allocates once it is
# open; what differs on CPython stands in port.

import select
import socket
from errno import ECONNRESET, EHOSTUNREACH, ETIMEDOUT

from .port import poller, stream, ticks_diff, ticks_ms


def addresses(host, port):
    """Returns what getaddrinfo() says of host, TCP only. Raises OSError."""
    found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    if not found:
        raise OSError(EHOSTUNREACH)
    return found


def dial(host, port, timeout):
    """Returns a socket connected to host:port, trying every address for `timeout` ms.
    Raises OSError."""
    for family, kind, proto, _, address in addresses(host, port):
        sock = socket.socket(family, kind, proto)
        try:
            sock.settimeout(timeout / 1000)
            sock.connect(address)
            return sock
        except OSError as e:
            sock.close()
            error = e
    raise error


def _no_delay(sock):
    # TCP_NODELAY by number: not every port has the names, and not every stack the option.
    try:
        sock.setsockopt(6, 1, 1)
    except (OSError, AttributeError):
        pass


class Link:
    """The connected socket sock to `host`, through `tls` (an SSLContext or None); a write may
    take `timeout` ms. Raises OSError."""

    def __init__(self, sock, host, tls, timeout):
        self._timeout = timeout
        try:
            _no_delay(sock)
            self.stream = stream(sock, tls, host)
        except Exception:
            sock.close()
            raise
        self._poller = poller()
        self._poller.register(self.stream, select.POLLIN)

    def _wait(self, what, ms):
        self._poller.modify(self.stream, what)
        for _ in self._poller.ipoll(ms):
            pass

    def read(self, view, n, ms):
        """Reads at most n bytes into view, waiting up to `ms` for the first. Returns how many
        came. Raises OSError when the connection is gone."""
        got = self.stream.readinto(view, n)
        if got is None and ms > 0:
            self._wait(select.POLLIN, ms)
            got = self.stream.readinto(view, n)
        if got == 0:
            raise OSError(ECONNRESET)
        return got or 0

    def write(self, buf, at, n):
        """Writes buf[at:at+n] whole. Raises OSError, also when the peer takes nothing for the
        time-out."""
        start = ticks_ms()
        while True:
            done = self.stream.write(buf, at, n)
            if done == n:
                return
            if done:
                at += done
                n -= done
            elif ticks_diff(ticks_ms(), start) >= self._timeout:
                raise OSError(ETIMEDOUT)
            else:
                self._wait(select.POLLOUT, 100)

    def close(self):
        self.stream.close()
