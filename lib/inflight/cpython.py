# MicroPython's ways of telling time and moving bytes, for CPython.

import asyncio
import select
import ssl
import sys
import time
import traceback

_PERIOD = 1 << 30


def const(value):
    return value


def copy(buf, i, data):
    end = i + len(data)
    buf[i:end] = data
    return end


def ticks_ms():
    return time.monotonic_ns() // 1_000_000 % _PERIOD


def ticks_add(ticks, delta):
    return (ticks + delta) % _PERIOD


def ticks_diff(end, start):
    return (end - start + _PERIOD // 2) % _PERIOD - _PERIOD // 2


def sleep_ms(ms):
    time.sleep(ms / 1000)


def print_exception(error):
    traceback.print_exception(error, file=sys.stderr)


class stream:
    """A connected socket with MicroPython's non-blocking readinto() and write()."""

    def __init__(self, sock, tls, host):
        sock.setblocking(False)
        if tls:
            sock = tls.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        self._sock = sock
        self.fileno = sock.fileno
        self.close = sock.close

    def readinto(self, view, n):
        try:
            return self._sock.recv_into(view, n)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None

    def write(self, buf, at, n):
        try:
            return self._sock.send(memoryview(buf)[at : at + n])
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None


def _ready(add, remove, file):
    # A future that is done when the event loop finds the file ready.
    future = asyncio.get_running_loop().create_future()
    add(file.fileno(), lambda: future.done() or future.set_result(None))
    future.add_done_callback(lambda _: remove(file.fileno()) if file.fileno() >= 0 else None)
    return future


def readable(file):
    loop = asyncio.get_running_loop()
    return _ready(loop.add_reader, loop.remove_reader, file)


def writable(file):
    loop = asyncio.get_running_loop()
    return _ready(loop.add_writer, loop.remove_writer, file)


async def aio_sleep_ms(ms):
    await asyncio.sleep(ms / 1000)


class poller:
    """select.poll() with ipoll()."""

    def __init__(self):
        self._poll = select.poll()
        self.register = self._poll.register
        self.modify = self._poll.modify

    def ipoll(self, ms):
        return self._poll.poll(ms)
