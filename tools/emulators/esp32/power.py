"""Power cuts. QEMU tells what the flash chip is asked to do in a trace, and tells it before the chip does it.

The trace goes through a pipe that holds one line, and whoever wants to write the next one waits: so the board is at
most one line ahead of what was read. Behind an operation come more lines than one in which ESP-IDF asks the chip
whether it is done. So a board whose trace is not read any more has told nobody that the operation is over."""

import fcntl
import os
import re
import threading

from tools.emulators import power

_EVENTS = ("m25p80_select", "m25p80_page_program", "m25p80_flash_erase")
OPTIONS = tuple(word for event in _EVENTS for word in ("-trace", event))
_LINE = re.compile(
    rb"m25p80_\w+ \[\w+\] (?:(?P<deselect>deselect)|page program cur_addr=0x(?P<at>\w+) *data=0x(?P<data>\w+)"
    rb"|offset = 0x(?P<start>\w+), len = (?P<size>\d+))"
)
_PAGE = 256
_MAX_LINE = 4096


def pipe():
    """Two ends of a pipe in which one write at a time fits, however short it is."""
    read, write = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    return read, write


class Power(power.Power):
    """The power of one board, from when it is switched on with the bytes `flash`. kill() ends the emulator; on_words
    (bytes) is told what QEMU says beside the trace, which it writes to the pipe `trace`. transactions: how often the
    chip was selected so far, whatever for."""

    def __init__(self, flash, trace, kill, on_words):
        super().__init__(kill)
        self.flash = bytearray(flash)
        self._trace, self._on_words = trace, on_words
        self.transactions = 0
        self._page = None  # address and content of the page that is programmed, before that
        self._lock = threading.Lock()
        self._timer = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def cut_in(self, seconds):
        """Power goes in so many seconds, whatever the board does then."""
        if self._timer:
            self._timer.cancel()
        self._timer = threading.Timer(seconds, self.off, ("between operations",))
        self._timer.daemon = True
        self._timer.start()

    def off(self, why="switched off"):
        with self._lock:
            return super().off(why)

    def join(self):
        """To be called when the emulator has ended. Returns what is in the flash."""
        if self._timer:
            self._timer.cancel()
        self._thread.join()
        return bytes(self.flash)

    def _watch(self):
        while line := os.read(self._trace, _MAX_LINE):
            if found := _LINE.match(line):
                if self._obey(found):
                    break
            elif not line.startswith(b"m25p80_"):
                self._on_words(line)
        os.close(self._trace)

    def _obey(self, line):
        """Does to `flash` what the chip does. Returns True if that was the last operation."""
        flash = self.flash
        if line["at"]:
            at = int(line["at"], 16)
            if not self._page:
                start = at // _PAGE * _PAGE
                self._page = start, bytes(flash[start : start + _PAGE])
            flash[at] &= int(line["data"], 16)
        elif line["size"]:
            start, size = int(line["start"], 16), int(line["size"])
            old = bytes(flash[start : start + size])
            flash[start : start + size] = b"\xff" * size
            return self._end_operation("erase", start, old)
        elif line["deselect"]:
            self.transactions += 1
            if self._page:
                start, old = self._page
                self._page = None
                return self._end_operation("program", start, old)
        return False

    def _end_operation(self, kind, start, old):
        end = start + len(old)
        left = self._operated(kind, start, old, bytes(self.flash[start:end]))
        if left is not None:
            self.flash[start:end] = left
        return left is not None
