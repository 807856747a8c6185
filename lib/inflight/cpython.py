# MicroPython's ways of telling time and moving bytes, for CPython.

import asyncio
import errno
import select
import socket
import ssl
import sys
import time
import traceback
from array import array

_PERIOD = 1 << 30


class Counters(array):
    """Numbers of 32 bits that wrap: CPython's array raises OverflowError."""

    def __setitem__(self, i, value):
        super().__setitem__(i, value & 0xFFFFFFFF)


def const(value):
    return value


def copy(buf, i, data):
    end = i + len(data)
    buf[i:end] = data
    return end


def copy_format(n, space):
    return "%ds" % n


def of_bytes(view):
    return view if view.format == "B" and view.ndim == 1 and view.c_contiguous else bytes(view)


def unload(*modules):
    pass


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


def getaddrinfo(host, *what):
    try:
        return socket.getaddrinfo(host, *what)
    except UnicodeError:  # "a..b", for example
        raise OSError(errno.EHOSTUNREACH, "%s is no name of a host" % host)


class stream:
    """A connected socket with MicroPython's non-blocking readinto() and write()."""

    starved = False  # a TLS handshake: nothing can be written before something is read

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
        self.starved = False
        try:
            return self._sock.send(memoryview(buf)[at : at + n])
        except ssl.SSLWantReadError:
            self.starved = True
        except (BlockingIOError, ssl.SSLWantWriteError):
            pass
        return None


class IOWaiter:
    """Where one task waits for a file, until another one wakes it."""

    woken = False  # the last wait ended by wake()
    _future = None
    _fd = -1

    async def wait(self, file, write):
        loop = asyncio.get_running_loop()
        add, self._remove = loop.add_reader, loop.remove_reader
        # A TLS handshake is made by writing, and waits for the peer's part of it.
        if write and not getattr(file, "starved", False):
            add, self._remove = loop.add_writer, loop.remove_writer
        self.woken = False
        self._future = loop.create_future()
        self._fd = file.fileno()
        add(self._fd, self._leave)
        try:
            await self._future
        finally:
            self._leave()

    def _leave(self):
        # Interrupted before the task can go on, it is called again.
        if not self._future.done():
            self._future.set_result(None)
        # Once: when the file is closed its descriptor may soon be another one's.
        if self._fd >= 0:
            self._remove(self._fd)
            self._fd = -1

    def wake(self):
        if self._fd >= 0:
            self.woken = True
            self._leave()


async def aio_sleep_ms(ms):
    await asyncio.sleep(ms / 1000)


class poller:
    """select.poll() with ipoll()."""

    def __init__(self):
        self._poll = select.poll()

    def register(self, file, events):
        self._file, self._events = file, events
        self._poll.register(file, events)

    modify = register  # registering again is modifying

    def ipoll(self, ms):
        if self._events == select.POLLOUT:
            self._poll.register(self._file, select.POLLIN if self._file.starved else select.POLLOUT)
        return self._poll.poll(ms)
