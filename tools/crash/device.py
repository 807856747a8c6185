"""The client of a simulation: its transport, and its flash, blank or with a used journal."""

import os
from errno import ECONNRESET, ETIMEDOUT
from functools import lru_cache
from unittest import mock

from inflight import Client, Journal, OutboxFull
from inflight.cpython import locked
from inflight.journal.journal import DONE, IN, OUT, RELEASED
from inflight.packet import ProtocolError
from inflight.session.refused import MessageSetAside
from inflight.states import INTERRUPTED, OPEN, OUTSIDE, REQUEST, RUNNING
from nor import NorFlash
from tools.crash.cutting import GRANULARITIES
from tools.reference.wire import spans

SECRETS = b"\x78\x56\x34\x12\xf0\xde\xbc\x9a"
WAITING = 8  # as of a file: see Journal


class HandlerError(Exception):
    """Raised by the application's handler in mode "raise"."""


class FakeTransport:
    """A connection, in place of the client's Transport. It breaks after the client has waited for `max_answers` answers
    (None: never); `arrive` packets of the client then still reach the broker."""

    def __init__(self, peer, max_answers, arrive, before_write):
        self.peer = peer
        self._before_write = before_write
        self.max_answers = max_answers
        self.arrive = arrive
        self.broken = False
        self.down = b""  # bytes that the client has not read yet
        self.stream = self  # Client writes some packets to `stream` directly
        self.write = self.send
        self.file = None
        self._raw = b""

    def send(self, buf, at, n):
        self._before_write()
        self._raw += bytes(memoryview(buf)[at : at + n])
        if self.broken:
            self.peer.lost(self._raw)
            raise OSError(ECONNRESET, "the link is gone")
        end = 0
        for start, _, end in spans(self._raw):
            self.peer.written(self._raw[start:end], bool(self.down))
        self._raw = self._raw[end:]
        return n

    def receive(self, view, space):
        if self.broken:
            raise OSError(ECONNRESET, "the link is gone")
        n = min(space, len(self.down))
        view[:n] = self.down[:n]
        self.down = self.down[n:]
        return n

    def wait(self, ms, write=False):
        if self.down:
            return
        # The client waits for an answer: the broker answers now, or the connection breaks.
        self.peer.out.handled()
        if self.max_answers != 0:
            self.peer.arrive()
        if self.max_answers == 0 or not self.peer.answers:
            self.break_link(self.arrive)
            raise OSError(ETIMEDOUT, "no answer")
        if self.max_answers:
            self.max_answers -= 1
        self.down = self.peer.next()

    def break_link(self, arrive=None):
        """The connection breaks; `arrive` packets still reach the broker. The client's next read or write fails."""
        self.broken = True
        self.peer.disconnected(arrive)

    def close(self):
        if not self.broken:
            self.peer.disconnected()


class Device(Client):
    """A client with a FakeTransport. `failure`: an unexpected error that it reported to on_error."""

    _guard: int

    def __init__(self, journal, peer, **options):
        self.peer = peer
        self.max_answers = self.arrive = None  # for the next FakeTransport
        self.failure = None
        super().__init__("h", "dev", journal, keepalive=0, retry_ms=0, timeout_ms=10**8, on_error=self._note, **options)

    def _note(self, error):
        if isinstance(error, MessageSetAside):
            self.peer.out.set_aside(error.mid)
        expected = (OSError, OutboxFull, HandlerError, MemoryError)
        if not isinstance(error, (*expected, ProtocolError) if self.peer.provoked else expected):
            self.failure = error

    def _note_aside(self):
        # What is set aside is overtaken by what is written next.
        session = self.session
        notices, session.notices = session.notices, ()
        for error in notices:
            self._note(error)
        if session.aside and not self._transport.down:
            self.peer.out.handled()
            self.peer.out.overtaken(session.seq, session.mids[: session.rows])

    def _do_step(self, step):
        if step == OPEN:
            self._transport = FakeTransport(self.peer, self.max_answers, self.arrive, self._note_aside)
            step = REQUEST  # its wait suits here too
        super()._do_step(step)

    @property
    def transport(self):
        """The connection, None if the client has none."""
        return self._transport

    @property
    def journal(self):
        return self.session.journal

    def feed(self, raw):
        """The client reads and handles these bytes."""
        self._transport.down += raw
        while self._transport and self._transport.down:
            self.poll()
        self.peer.out.handled()

    def poll(self):
        """Writes pending packets and handles received ones, as run_for() does."""
        before = self._guard
        try:
            self._begin(RUNNING | OUTSIDE)
            self._check_interrupted()
            if self._transport:
                self._poll(0)
        except (OSError, ProtocolError, MemoryError) as error:
            self._connection_failed(error)
        finally:
            self._guard = self._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)

    poll = locked(poll, True, RUNNING | OUTSIDE)

    def _connection_failed(self, error):
        if isinstance(error, MemoryError):
            self.peer.power_cut(None)  # the operation may have taken effect or not
        super()._connection_failed(error)

    def _drop_connection(self, error):
        self.peer.out.connection_lost()
        super()._drop_connection(error)


def aged(setup):
    """The flash that a Simulation's setup describes."""
    flash = NorFlash(setup["sectors"], setup["size"], GRANULARITIES[setup["granularity"]], cache=True)
    flash.checkpoints = setup["checkpoints"]
    names = ("granularity", "sectors", "size", "age", "last_mid", "stuck", "checkpoints")
    flash.restore(_old(*(setup[name] for name in names)))
    return flash


@lru_cache(256)
def _old(granularity, sectors, size, age, last_mid, stuck, checkpoints):
    """A snapshot of flash with a journal that has seen `stuck` received Message IDs, which are still live, and then
    `age` messages, which are completed; the last one had the id `last_mid`. age None: the flash is blank."""
    flash = NorFlash(sectors, size, GRANULARITIES[granularity])
    flash.checkpoints = checkpoints
    if age is not None:
        journal = mounted(flash)
        for mid in range(60001, 60001 + stuck):
            journal.mark(journal.append(IN, mid, b"", 0), RELEASED)
        for k in range(age - 1, -1, -1):
            mid = (last_mid - 1 - k) % 65535 + 1
            journal.mark(journal.append(OUT, mid, bytes(90), 40 + k % 50), DONE)
    return flash.snapshot()


def mounted(flash):
    """The Journal on the flash; if it is formatted now, its random numbers are fixed."""
    with mock.patch.object(os, "urandom", lambda n: SECRETS[:n]):
        journal = Journal(flash)
    journal.waiting = WAITING
    return journal
