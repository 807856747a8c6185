# A bare socket that sends packets made in advance: the highest rate that a client can reach.

import socket
import sys

TOPIC = "sensors/attic/temperature"
PAYLOAD = b"x" * 64
PUBREL = b"\x62\x02\x00\x01"


def string(text):
    data = text.encode()
    return bytes((0, len(data))) + data


def number(index):
    return int(sys.argv[index])


class Raw:
    """Connected to the broker on `port` of this machine. Publishes one message of `qos` repeatedly."""

    def __init__(self, port, name, qos, nodelay):
        self._sock = sock = socket.socket()
        sock.connect(socket.getaddrinfo("127.0.0.1", port)[0][-1])
        if nodelay:
            sock.setsockopt(6, 1, 1)
        body = b"\x00\x04MQTT\x04\x02\x00\x00" + string(name)
        sock.write(bytes((0x10, len(body))) + body)
        self._four = bytearray(4)
        sock.readinto(self._four)
        body = string(TOPIC) + (b"\x00\x01" if qos else b"") + PAYLOAD
        self._packet = bytes((0x30 | qos << 1, len(body))) + body
        self._qos = qos

    def send(self):
        """Publishes one message, with its whole handshake."""
        self._sock.write(self._packet)
        if self._qos:
            self._sock.readinto(self._four)
        if self._qos == 2:
            self._sock.write(PUBREL)
            self._sock.readinto(self._four)

    def round(self, qos, n, window):
        """Publishes n messages of QoS 0, or of QoS 1 with `window` in flight."""
        write = self._sock.write
        packet = self._packet
        if not qos:
            for _ in range(n):
                write(packet)
            return
        read = self._sock.readinto
        four = self._four
        sent = min(n, window)
        for _ in range(sent):
            write(packet)
        for _ in range(n):
            read(four)
            if sent < n:
                write(packet)
                sent += 1

    def close(self):
        self._sock.close()
