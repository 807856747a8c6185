# MicroPython's ways of telling time and moving bytes, for CPython.

import asyncio
import difflib
import errno
import functools
import os
import select
import socket
import ssl
import sys
import threading
import time
import traceback
import weakref
from array import array

_SHARED = ("connect", "disconnect", "drain", "ping", "subscribe", "unsubscribe")  # calls of both clients

# How MicroPython's viper code names buffers of bytes, and of numbers of 16 bits.
ptr8 = bytearray
ptr16 = array

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
        try:
            add(self._fd, self._leave)
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


def locked(method, runs, within):
    """`method` of a Client as a call that has the client's lock. runs: it runs the client, which one thread at a time
    does; publish() does while no other call is under way, since it may read and call handlers, too. within: the bits of
    its state that are off between calls."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        with self._lock:
            me = threading.get_ident()
            while runs and self._briefly and self._runner not in (None, me):
                threading.Condition(self._lock).wait(0.01)  # for a publish() that has left the lock to others
            depth = self._depth
            runner = self._runner
            if not depth:
                self._guard &= ~within  # a signal came before they were off
            elif runs and runner not in (None, me):
                text = "%s(): another thread runs this client: from here only publish() can be called"
                raise RuntimeError(text % method.__name__)
            try:
                self._depth = depth + 1
                if not depth:
                    self._runner = me
                    self._briefly = not runs
                return method(self, *args, **kwargs)
            finally:
                try:
                    if not self._lock._is_owned():  # a signal came before it was back
                        self._lock.acquire()
                finally:
                    self._depth = depth
                    self._runner = runner

    return call


def share_among_threads(client_class, running, outside):
    """publish(), is_pending() and pending_messages() of a Client may be called from any thread. Each call has the lock,
    but while the one that runs the client calls back or waits. Everything else is refused while another thread runs it.
    running, outside: the bits of its guard, as base has them."""
    make = client_class.__init__
    leave = client_class._leave
    come_back = client_class._return
    wait = client_class._wait

    @functools.wraps(make)
    def __init__(self, host, client_id="", journal=None, **options):
        self._lock = threading.RLock()
        self._depth = 0  # calls under way, one within the other
        self._runner = None  # the thread of the one that runs the client, which may leave the lock to others,
        self._briefly = False  # and is a publish()
        other = getattr(journal, "client", None)  # which had the journal last
        with other._lock if other else self._lock:
            if other and other._depth and other._guard & running:
                raise RuntimeError("a call of the client that has this journal is under way: repeat this later")
            make(self, host, client_id, journal, **options)
            if journal:
                journal.client = self

    def _leave(self):
        away = self._guard & running and self._runner == threading.get_ident()
        leave(self)
        if away:
            held = self._lock._release_save()
            if held[0] > 1:  # this call came in a line of another one that had just begun, which keeps it
                self._lock._acquire_restore(held)

    def _return(self, state):
        if state & running and self._runner == threading.get_ident() and not self._lock._is_owned():
            self._lock.acquire()
        come_back(self, state)

    def _wait(self, ms):
        # A publish() that waits for space keeps the lock: others are behind it.
        runner = self._runner
        try:
            if self._briefly:
                self._runner = None
            wait(self, ms)
        finally:
            self._runner = runner

    client_class.__init__ = __init__
    client_class._wait = _wait
    client_class._leave = _leave
    client_class._return = _return
    for name in _SHARED + ("discard", "is_pending", "publish", "run_for"):
        runs = name not in ("publish", "is_pending")
        setattr(client_class, name, locked(getattr(client_class, name), runs, running | outside))
    iterate = client_class.pending_messages
    step = locked(lambda self, found: next(found, None), False, running | outside)

    @functools.wraps(iterate)
    def pending_messages(self):
        found = iterate(self)
        return iter(lambda: step(self, found), None)

    client_class.pending_messages = pending_messages
    _refuse_unknown(client_class)


def _refuse_unknown(client_class):
    """A client has the attributes that it has from its constructor on; those of a subclass may have others."""
    assign = client_class.__setattr__

    def __setattr__(self, name, value):
        if not (name[0] == "_" or hasattr(self, name) or "session" not in vars(self) or type(self) is not client_class):
            known = [k for k in dir(self) if k[0] != "_" and (k[:3] == "on_" or name[:3] != "on_")]
            nearest = difflib.get_close_matches(name, known, 1, 0)[0]
            raise AttributeError("%s has no attribute %s: is it %s?" % (client_class.__name__, name, nearest))
        assign(self, name, value)

    client_class.__setattr__ = __setattr__


def keep_to_one_loop(client_class):
    """The coroutines of an AsyncClient are refused in another event loop while its own is running."""

    def checked(method):
        @functools.wraps(method)
        async def call(self, *args, **kwargs):
            loop = asyncio.get_running_loop()
            if self._loop is not loop:
                if self._loop and self._loop.is_running():
                    text = "%s(): this client runs in another event loop: asyncio.run_coroutine_threadsafe() goes there"
                    raise RuntimeError(text % method.__name__)
                self._loop = loop
            return await method(self, *args, **kwargs)

        return call

    client_class._loop = None
    for name in _SHARED + ("publish",):
        setattr(client_class, name, checked(getattr(client_class, name)))
    _refuse_unknown(client_class)


def leave_in_children(file):
    """A process that is forked has no part in a File of flash."""
    reference = weakref.ref(file)

    def leave():
        file = reference()
        if file:
            file.leave()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=leave)


def sync_folder(folder):
    """Makes the names in a folder durable."""
    if os.name == "posix":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
