"""A broker for measurements, in a process of its own: it takes everything, keeps nothing, and answers after as long as
the client id asks for ("trip20": 20 ms), or not at all ("sink").

`python responder.py` prints its port."""

import select
import socket
import struct
import threading
import time
from collections import deque

CONNECT, PUBLISH, PUBREL, SUBSCRIBE, PINGREQ, DISCONNECT = 1, 3, 6, 8, 12, 14


def _packets(data):
    """Yields (type, flags, start of the body, end) of each whole packet in data."""
    start, size = 0, len(data)
    while size - start > 1:
        length = shift = 0
        at = start + 1
        while True:
            if at == size:
                return
            digit = data[at]
            length |= (digit & 0x7F) << shift
            shift += 7
            at += 1
            if digit < 0x80:
                break
        if at + length > size:
            return
        yield data[start] >> 4, data[start] & 15, at, at + length
        start = at + length


def _answer(data, kind, flags, at):
    """The packet that one of this kind is answered with, empty if it is not."""
    if kind == PUBLISH and flags & 6:
        at += 2 + (data[at] << 8 | data[at + 1])
        return struct.pack(">BB2s", 0x40 if flags & 2 else 0x50, 2, data[at : at + 2])
    if kind == PUBREL:
        return b"\x70\x02" + data[at : at + 2]
    if kind == SUBSCRIBE:
        return b"\x90\x03" + data[at : at + 2] + b"\x01"
    if kind == PINGREQ:
        return b"\xd0\x00"
    return b"\x20\x02\x00\x00" if kind == CONNECT else b""


def _client_id(data, at):
    at += 10
    return data[at + 2 : at + 2 + (data[at] << 8 | data[at + 1])].decode()


def serve(sock):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = bytearray()
    trip = 0.0
    waiting = deque()  # (when it is due, answer)
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
        data += got
        answer, end = b"", 0
        for kind, flags, at, end in _packets(data):
            answer += _answer(data, kind, flags, at)
            if kind == CONNECT:
                name = _client_id(data, at)
                if name == "sink":
                    sock.sendall(answer)
                    return discard(sock)
                trip = int(name.removeprefix("trip")) / 1000
                sock.sendall(answer)
                answer = b""
        del data[:end]
        if answer and trip:
            waiting.append((time.perf_counter() + trip, answer))
        elif answer:
            sock.sendall(answer)


def discard(sock):
    room = bytearray(65536)
    while sock.recv_into(room):
        pass


def _attend(sock):
    try:
        serve(sock)
    except OSError:
        pass  # the client has left in its own way
    finally:
        sock.close()


def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=16)
    print(listener.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=_attend, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
