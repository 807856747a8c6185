# One connection to the broker: TCP or TLS, perhaps with a WebSocket on it. Every wait is bounded, nothing allocates
# once it is open; what differs on CPython stands in compat.

import socket
import sys
from errno import ECONNABORTED, ECONNRESET, EHOSTUNREACH

from ..compat import const, poller

_POLLOUT = const(4)  # CPython on Windows has no name for it


def _refusal(error):
    # MicroPython tells of a certificate that it does not trust by ValueError, CPython by both.
    return error if isinstance(error, OSError) else OSError(ECONNABORTED, str(error))


class Transport:
    """The connected socket sock to `host`, through `tls` (an SSLContext or None). `file` is what is waited for,
    `stream` what bytes are read from and written to: the same, or a WebSocket on it. Raises OSError."""

    file: object
    _readable: poller

    def __init__(self, sock, host, tls):
        self._writable = None
        self.stream = sock
        try:
            prepare(self, sock, host, tls)
        except BaseException:
            self.close()
            raise

    def receive(self, view, n):
        """Reads at most n bytes into view, without waiting. Returns how many came, 0 if none is
        there. Raises OSError when the connection is gone."""
        try:
            got = self.stream.readinto(view, n)
        except ValueError as e:
            raise _refusal(e)
        if got == 0:
            raise OSError(ECONNRESET, "the broker closed the connection")
        return got or 0

    def send(self, buf, at, n):
        """Writes what the socket takes of buf[at:at+n]. Returns how many bytes; 0 or None: none."""
        try:
            return self.stream.write(buf, at, n)
        except ValueError as e:
            raise _refusal(e)

    def wait(self, ms, write=False):
        """Waits up to `ms` for something to receive, or until the socket takes more."""
        poll = self._readable
        if write:
            if not self._writable:
                self._writable = poller()
                self._writable.register(self.file, _POLLOUT)
            poll = self._writable
        for _ in poll.ipoll(ms):
            pass

    def close(self):
        self.stream.close()


# --- opening a connection ---

_POLLIN = const(1)  # CPython on Windows has no names for them
_MOST_ADDRESSES = const(10)  # addresses of one name: an answer of DNS may have hundreds

if sys.implementation.name == "micropython":
    from socket import getaddrinfo

    def _stream(sock, tls, host):
        # The connected socket made non-blocking, through `tls` if given. The handshake happens in the first writes, so
        # that a silent peer cannot hold it up for ever.
        sock.setblocking(False)
        if tls:
            sock = tls.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        return sock

else:
    from ..cpython import getaddrinfo
    from ..cpython import stream as _stream


def addresses(host, port):
    """Returns the first ones that getaddrinfo() says of host, TCP only: each is tried for a whole time-out. Raises
    OSError, which names the host."""
    try:
        found = getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    except OSError as e:
        raise OSError(e.args[0], "no address of %s: %s" % (host, e.args[-1]))
    if not found:
        raise OSError(EHOSTUNREACH, "no address of %s" % host)
    return found[:_MOST_ADDRESSES]


def check_tls(tls):
    """Raises ValueError if this SSLContext does not verify the broker. Asked at each connection, since somebody may
    have changed it."""
    # 2 is CERT_REQUIRED; a MicroPython with CERT_OPTIONAL takes any certificate. CPython looks at the host name only if
    # it is told to, MicroPython always does.
    if getattr(tls, "verify_mode", 0) != 2 or not getattr(tls, "check_hostname", True):
        raise ValueError("tls does not verify: set verify_mode = CERT_REQUIRED, check_hostname, and load a CA")


def open_socket(host, port, timeout_ms):
    """Returns a socket connected to host:port, trying every address for timeout_ms. Raises OSError."""
    for family, kind, proto, _, address in addresses(host, port):
        sock = None
        try:
            sock = socket.socket(family, kind, proto)
            sock.settimeout(timeout_ms / 1000)
            sock.connect(address)
            return sock
        except BaseException as e:
            if sock:
                sock.close()
            if not isinstance(e, OSError):  # as for a family that this machine has not
                raise
            error = e
    raise error


def prepare(transport, sock, host, tls):
    """What a Transport needs of the connected socket."""
    _no_delay(sock)
    transport.stream = transport.file = _stream(sock, tls, host)
    # One each, because modify() allocates; the second only for a socket that is ever full. The
    # first event allocates too: here is one.
    transport._readable = poller()
    transport._readable.register(transport.file, _POLLOUT)
    for _ in transport._readable.ipoll(0):
        pass
    transport._readable.modify(transport.file, _POLLIN)


def _no_delay(sock):
    # TCP_NODELAY by number: not every port has the names, and not every stack the option.
    try:
        sock.setsockopt(6, 1, 1)
    except (OSError, AttributeError):
        pass
