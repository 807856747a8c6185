# One connection to the broker: TCP or TLS, perhaps with a WebSocket on it. Every wait is bounded, nothing allocates
# once it is open; what differs on CPython stands in compat.

from errno import ECONNABORTED, ECONNRESET

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
            from .opening import prepare

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
