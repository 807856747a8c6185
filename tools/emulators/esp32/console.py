"""The serial line of the emulated ESP32."""

import contextlib
import re
import selectors
import socket
import threading

_NOTE = re.compile(rb"^NOTE (\d+)\r?\n", re.MULTILINE)
_CHUNK = 65536


class Console:
    """Reads `line`, a socket: the emulated UART drops what nobody reads. said: all that came since clear(); notes: the
    numbers that the board printed after the word NOTE. One TCP client at a time may use the line as well, at `port` of
    loopback."""

    def __init__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._line = self._client = self._thread = None
        self.clear()

    def clear(self):
        self.said = bytearray()
        self.notes = []
        self._read = 0  # up to here notes were looked for

    def listen(self, line):
        self._line = line
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self):
        """Waits until all is read that was sent before the line was closed."""
        self._thread.join()

    def close(self):
        self._server.close()

    def type(self, data):
        self._line.sendall(data)

    def _run(self):
        with selectors.DefaultSelector() as ready, self._line:
            ready.register(self._line, selectors.EVENT_READ, self._read_line)
            ready.register(self._server, selectors.EVENT_READ, self._accept)
            while self._line.fileno() >= 0:
                for key, _ in ready.select():
                    key.data(ready)
            self._drop(ready)

    def _accept(self, ready):
        client, _ = self._server.accept()
        self._drop(ready)
        self._client = client
        ready.register(client, selectors.EVENT_READ, self._pass_on)

    def _read_line(self, ready):
        data = _received(self._line)
        if not data:
            ready.unregister(self._line)
            self._line.close()
            return
        self.said += data
        for found in _NOTE.finditer(self.said, self._read):
            self.notes.append(int(found[1]))
            self._read = found.end()
        if self._client:
            with contextlib.suppress(OSError):  # _pass_on() reads that the client has closed
                self._client.sendall(data)

    def _pass_on(self, ready):
        data = _received(self._client)
        if data:
            with contextlib.suppress(OSError):
                self._line.sendall(data)
        else:
            self._drop(ready)

    def _drop(self, ready):
        if self._client:
            ready.unregister(self._client)
            self._client.close()
            self._client = None


def _received(end):
    try:
        return end.recv(_CHUNK)
    except OSError:
        return b""
