# One connection to the broker: TCP or TLS, perhaps with a WebSocket on it. Every wait is bounded, nothing allocates
# once it is open; what differs on CPython stands in compat.

from errno import ECONNABORTED, ECONNRESET, ETIMEDOUT

from ..compat import const, poller, ticks_diff, ticks_ms

PACE = const(256)  # bytes that a peer takes within a time-out, if it does not want to hold us up
_POLLOUT = const(4)  # CPython on Windows has no name for it


def _refusal(error):
    # MicroPython tells of a certificate that it does not trust by ValueError, CPython by both.
    return error if isinstance(error, OSError) else OSError(ECONNABORTED, str(error))


class Transport:
    """The connected socket sock to `host`, through `tls` (an SSLContext or None); a write may
    take `timeout` ms. `file` is what is waited for, `stream` what bytes are read from and written to: the same, or a
    WebSocket on it. Raises OSError."""

    file: object
    _readable: poller

    def __init__(self, sock, host, tls, timeout_ms):
        self._timeout_ms = timeout_ms
        self._writable = None
        self.stream = sock
        try:
            from .opening import prepare

            prepare(self, sock, host, tls)
        except BaseException:
            self.close()
            raise

    def _wait_writable(self, ms):
        if not self._writable:
            self._writable = poller()
            self._writable.register(self.file, _POLLOUT)
        for _ in self._writable.ipoll(ms):
            pass

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

    def wait(self, ms):
        """Waits up to `ms` for something to receive."""
        for _ in self._readable.ipoll(ms):
            pass

    def write(self, buf, at, n):
        """Writes buf[at:at+n] whole. Raises OSError, also when the peer takes less than PACE bytes in as
        long as the time-out."""
        done = self.send(buf, at, n)
        start = 0 if done == n else ticks_ms()  # the usual case is a quick one
        took = 0
        while done != n:
            if done:
                at += done
                n -= done
                took += done
            if took >= PACE:
                took = 0
                start = ticks_ms()
            elif ticks_diff(ticks_ms(), start) >= self._timeout_ms:
                raise OSError(ETIMEDOUT, "the broker takes too little")
            if not done:
                self._wait_writable(100)
            done = self.send(buf, at, n)

    def close(self):
        self.stream.close()
