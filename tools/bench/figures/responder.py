"""A broker for measurements, as a process: `python -m tools.bench.figures.responder` prints its port.

It stores nothing. The client id says when it answers: "trip20" after 20 ms, "sink" never. It must be faster than any
client, so it answers PUBLISH and PUBREL without decoding them. The reference server, which checks each packet and takes
five times as long, answers the others."""

import contextlib
import select
import socket
import struct
import threading
import time
from collections import deque

from tools.peers.websocket_server import WebSocketServer
from tools.reference.kinds import PUBLISH, PUBREL
from tools.reference.server import Connection, Server
from tools.reference.wire import parse, spans


def _ack(data, at, body):
    """The answer to the PUBLISH or PUBREL at data[at]; empty at QoS 0 and for other packets."""
    kind, qos = data[at] >> 4, data[at] >> 1 & 3
    if kind == PUBLISH and qos:
        mid = body + 2 + (data[body] << 8 | data[body + 1])
        return struct.pack(">BB2s", 0x40 if qos == 1 else 0x50, 2, data[mid : mid + 2])
    return b"\x70\x02" + data[body : body + 2] if kind == PUBREL else b""


class _Client:
    """Reassembles a client's packets. `client_id`: None before its CONNECT."""

    def __init__(self):
        self.client_id = None
        self._data = bytearray()
        self._connection = Connection(Server())

    def received(self, data):
        """Returns the answers to the packets that are now complete."""
        self._data += data
        data, answers, end = self._data, b"", 0
        for at, body, end in spans(data):
            answers += _ack(data, at, body) or self._other(bytes(data[at:end]))
        del data[:end]
        return answers

    def _other(self, raw):
        p = parse(raw, self._connection.level)
        self.client_id = self.client_id or p.client_id
        self._connection.packet_received(p)
        return self._connection.data_to_send()


def serve(sock):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sock.recv(1, socket.MSG_PEEK) == b"G":  # GET
        sock = WebSocketServer(sock)
    client = _Client()
    while not client.client_id:
        got = sock.recv(65536)
        if not got:
            return
        sock.sendall(client.received(got))
    if client.client_id == "sink":
        buffer = bytearray(65536)
        while sock.recv_into(buffer):
            pass
        return
    trip = int(client.client_id.removeprefix("trip")) / 1000
    waiting = deque()  # (due time, answer)
    while True:
        if waiting:
            left = waiting[0][0] - time.perf_counter()
            if left <= 0:
                sock.sendall(waiting.popleft()[1])
                continue
            if not select.select([sock], [], [], left)[0]:
                continue
        got = sock.recv(65536)
        if not got:
            return
        answer = client.received(got)
        if answer and trip:
            waiting.append((time.perf_counter() + trip, answer))
        elif answer:
            sock.sendall(answer)


def _serve_and_close(sock):
    with sock, contextlib.suppress(OSError):  # the client may break the connection
        serve(sock)


def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=16)
    print(listener.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=_serve_and_close, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
