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
_POLLIN = 1
_POLLOUT = 4


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
        raise OSError(errno.EHOSTUNREACH, "this is no name of a host")


def _explained(error):
    # What does not begin like TLS is a record of another version.
    if error.reason != "WRONG_VERSION_NUMBER":
        return error
    return OSError(errno.ECONNABORTED, "the peer does not speak TLS: give another port, like 8883, or no tls=")


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
        except ssl.SSLError as e:
            raise _explained(e)

    def write(self, buf, at, n):
        self.starved = False
        try:
            return self._sock.send(memoryview(buf)[at : at + n])
        except ssl.SSLWantReadError:
            self.starved = True
        except (BlockingIOError, ssl.SSLWantWriteError):
            pass
        except ssl.SSLError as e:
            raise _explained(e)
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


async def look_up(addresses, host, port, timeout_ms):
    """Returns addresses(host, port), from a thread: others go on. Raises OSError."""
    looking = asyncio.get_running_loop().run_in_executor(None, addresses, host, port)
    try:
        await asyncio.wait((looking,), timeout=timeout_ms / 1000)
        if not looking.done():
            raise OSError(errno.ETIMEDOUT, "no address of %s in %d ms" % (host, timeout_ms))
        return looking.result()
    finally:
        looking.cancel()


async def aio_sleep_ms(ms):
    await asyncio.sleep(ms / 1000)


class poller:
    """select.poll() of one file, with ipoll(). Windows has only select.select()."""

    def __init__(self):
        self._poll = select.poll() if hasattr(select, "poll") else None

    def register(self, file, events):
        self._file, self._events = file, events

    modify = register

    def ipoll(self, ms):
        write = self._events == _POLLOUT and not self._file.starved
        if self._poll:
            self._poll.register(self._file, _POLLOUT if write else _POLLIN)
            return self._poll.poll(ms)
        files = [self._file]
        readable, writable, _ = select.select([] if write else files, files if write else [], [], ms / 1000)
        return readable + writable
