"""The time as NTP tells it."""

import socketserver
import struct
import threading
import time

PORT = 123
_EPOCH = 2_208_988_800  # 1970, counted from 1900


def answer(_query, now=None):
    """The datagram that answers any query, at the time `now` in s since 1970."""
    return struct.pack("!BB38xII", 0x24, 1, int(time.time() if now is None else now) + _EPOCH, 0)


class _Handler(socketserver.DatagramRequestHandler):
    def handle(self):
        self.wfile.write(answer(self.packet))


class Server(socketserver.UDPServer):
    """Tells the time on loopback, in a thread. OSError where its port takes a right that one has not got."""

    def __init__(self, port=PORT):
        super().__init__(("127.0.0.1", port), _Handler)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
