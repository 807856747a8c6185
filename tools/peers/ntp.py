"""The time as NTP tells it."""

import socket
import struct
import threading
import time

PORT = 123
_EPOCH = 2_208_988_800  # 1970, counted from 1900


def answer(_query, now=None):
    """The datagram that answers any query, at the time `now` in s since 1970."""
    return struct.pack("!BB38xII", 0x24, 1, int(time.time() if now is None else now) + _EPOCH, 0)


class Server:
    """Tells the time on loopback, in a thread. OSError where its port takes a right that one has not got."""

    def __init__(self, port=PORT):
        self.address = ("127.0.0.1", port)

    def __enter__(self):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind(self.address)
        except OSError:
            self._socket.close()
            raise
        self.address = self._socket.getsockname()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._socket.sendto(b"", self.address)
        self._thread.join()
        self._socket.close()

    def _run(self):
        while True:
            query, whom = self._socket.recvfrom(512)
            if not query:
                return
            self._socket.sendto(answer(query), whom)
