"""Virtual time for both clients: a scripted broker and a client run in turns, and time passes only while both wait. So
time-outs take no real time, and tests do not depend on the machine's load."""

import asyncio
import contextlib
import socket
import threading

import inflight.cpython
from host_tests.broker import Automatic, Broker, Connection
from tools.clock import TurnsClock, VirtualLoop
from tools.reference.wire import Violation


def new_loop():
    """An event loop for asyncio clients, on virtual time if they are."""
    time = inflight.cpython.time
    return VirtualLoop(time) if isinstance(time, TurnsClock) else asyncio.new_event_loop()


class _Connection(Connection):
    def __init__(self, sock, wait):
        super().__init__(sock)
        sock.settimeout(0)
        self._wait = wait

    def _recv(self, most):
        while True:
            try:
                return self.sock.recv(most)
            except BlockingIOError:
                self._wait()

    def _send(self, data):
        at = 0
        while at < len(data):
            try:
                at += self.sock.send(data[at:])
            except BlockingIOError:
                self._wait()


class VirtualBroker(Broker):
    """A Broker whose script runs while the client waits, and the other way round. `clock`: the client's time."""

    wakes_at = 0  # the script sleeps until then

    def __init__(self, clock):
        super().__init__()
        self._listener.settimeout(0)
        self.clock = clock
        clock.brokers.append(self)
        self._script_may, self._client_may = threading.Semaphore(0), threading.Semaphore(0)
        self._playing = self._over = False

    def narrow(self):
        """New connections get a small receive buffer."""
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def idle(self):
        """The client waits: runs the script. Raises what has ended it, once: nobody waits for the rest in vain."""
        if self._playing:
            self._script_may.release()
            self._client_may.acquire()
        elif self.failure and not self._over:
            self._over = True
            raise self.failure

    def _has_failed(self):
        pass  # a client that connects anew waits for CONNACK: that raises

    def _wait(self):
        # The script waits: the client runs.
        if self._over:
            raise Violation("the broker was closed while it waited for the client")
        self._client_may.release()
        self._script_may.acquire()

    def until(self, condition):
        """The script waits until condition()."""
        while not condition():
            self._wait()

    def sleep(self, seconds):
        """The script waits for so long."""
        self.wakes_at = self.clock.now + seconds
        self.until(lambda: self.clock.now >= self.wakes_at)

    def accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
                break
            except BlockingIOError:
                self._wait()
        self.connections.append(_Connection(sock, self._wait))
        return self.connections[-1]

    @contextlib.contextmanager
    def play(self, script):
        def in_turns(broker):
            self._script_may.acquire()
            try:
                script(broker)
            finally:
                self._playing = False
                self._client_may.release()

        self._playing, self._over = True, False
        with super().play(in_turns):
            try:
                yield self
            finally:
                self._over = True
                self.idle()


class VirtualAutomatic(Automatic):
    """An Automatic broker without a thread: it serves the client while that waits."""

    wakes_at = 0
    _told = False  # of the failure

    def __init__(self, clock, *args, **options):
        self.clock = clock
        super().__init__(*args, **options)

    def _start(self):
        self.clock.brokers.append(self)

    def _end(self):
        self.idle()
        self.clock.brokers.remove(self)

    def idle(self):
        if not self.failure:
            self._run(self._serve_ready)
        if self.failure and not self._told:
            self._told = True
            raise self.failure

    def _has_failed(self):
        pass  # it is raised

    def _serve_ready(self):
        while self._serve_once(0):
            pass
