"""Reads a board's console without sending a byte."""

import contextlib
import threading

import serial

from inflight_tools.boards.device.link import refusal

_LOOK_S = 0.2


class Console:
    """Calls on_line(text) with each line that the board on `port` prints, and on_state(text) when the port disappears
    or returns, as during a reset. Both are called from a thread of its own."""

    def __init__(self, port, on_line, on_state=lambda text: None):
        self._port, self._on_line, self._on_state = port, on_line, on_state
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join(5)

    def _run(self):
        said = None
        while not self._end.is_set():
            try:
                port = serial.serial_for_url(self._port, 115200, timeout=_LOOK_S, exclusive=True)
            except OSError:
                state = refusal(self._port)
            else:
                self._on_state(f"listening to {self._port}")
                said = None
                self._listen(port)
                state = f"{self._port} is gone: waiting until it is back"
            if state != said and not self._end.is_set():
                self._on_state(state)
            said = state
            self._end.wait(_LOOK_S)

    def _listen(self, port):
        rest = b""
        with contextlib.suppress(OSError, TypeError):  # pyserial's own way to say that a port vanished
            while not self._end.is_set():
                data = port.read(max(1, port.in_waiting))
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._tell(line)
                if not data and rest:  # a prompt, or half a line from a board that hangs
                    self._tell(rest)
                    rest = b""
        if rest:
            self._tell(rest)
        _release(port)

    def _tell(self, line):
        if text := line.decode(errors="replace").rstrip():
            self._on_line(text)


def _release(port):
    # RTS before DTR: the other way round is how an ESP32 is told to reset.
    with contextlib.suppress(OSError):
        port.rts = False
        port.dtr = False
    with contextlib.suppress(OSError):
        port.close()
