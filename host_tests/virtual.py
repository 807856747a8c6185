"""Virtual time for the blocking client: a scripted broker and a client run in turns, and time passes only while both
wait. So time-outs take no real time, and tests do not depend on the machine's load."""

import contextlib
import socket
import threading

import inflight.cpython
from host_tests.broker import Broker, Connection
from tools.reference.wire import Violation


class Clock:
    """Replaces the client's module `time`."""

    def __init__(self, idle):
        self.now = 1000.0  # seconds
        self._idle = idle

    def monotonic_ns(self):
        return round(self.now * 1e9)

    def sleep(self, seconds):
        self._idle()
        self.now += max(seconds, 0.001)


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


class VirtualBroker(Broker):
    """A Broker whose script runs while the client waits, and the other way round. `clock`: the client's time."""

    def __init__(self):
        super().__init__()
        self._listener.settimeout(0)
        self.clock = Clock(self.idle)
        self._script_may, self._client_may = threading.Semaphore(0), threading.Semaphore(0)
        self._playing = self._over = False

    def narrow(self):
        """New connections get a small receive buffer."""
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def idle(self):
        """The client waits: runs the script."""
        if self._playing:
            self._script_may.release()
            self._client_may.acquire()

    def _wait(self):
        # The script waits: the client runs.
        if self._over:
            raise Violation("the broker was closed while it waited for the client")
        self._client_may.release()
        self._script_may.acquire()

    def _accept(self):
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

    def poller(self):
        """The poller class for the client."""
        broker = self

        class Poller(inflight.cpython.poller):
            def ipoll(self, ms):
                found = super().ipoll(0)
                if not found:
                    broker.idle()
                    found = super().ipoll(0)
                if not found:
                    broker.clock.now += ms / 1000
                return found

        return Poller
