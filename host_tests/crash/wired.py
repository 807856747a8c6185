"""The client on a wire of ours, and the flash below it: new, or with laps behind it."""

import os
from errno import ECONNRESET, ETIMEDOUT
from functools import lru_cache

from cutting import GRANULARITIES
from inflight import Client, Journal
from inflight.base import OPEN, REQUEST
from inflight.journal import DONE, IN, OUT, RELEASED
from inflight.packet import ProtocolError
from nor import NorFlash
from reference.wire import spans

SECRETS = b"\x78\x56\x34\x12\xf0\xde\xbc\x9a"


class HandlerError(Exception):
    """What the application's handler raises when the script says so."""


class Wire:
    """A connection: what Client knows as its link. `patience`: how often the broker answers a client that waits, None:
    as often as it likes; `arrive`: how many packets then still reach it."""

    def __init__(self, peer, patience, arrive):
        self.peer = peer
        self.patience = patience
        self.arrive = arrive
        self.broken = False
        self.down = b""  # what the client has still to read
        self.stream = self  # what Client writes to where nothing can be left over
        self._raw = b""

    def write(self, buf, at, n):
        self._raw += bytes(memoryview(buf)[at : at + n])
        if self.broken:
            self.peer.lost(self._raw)
            raise OSError(ECONNRESET, "the link is gone")
        end = 0
        for start, _, end in spans(self._raw):
            self.peer.written(self._raw[start:end])
        self._raw = self._raw[end:]
        return n

    def receive(self, view, space):
        if self.broken:
            raise OSError(ECONNRESET, "the link is gone")
        n = min(space, len(self.down))
        view[:n] = self.down[:n]
        self.down = self.down[n:]
        return n

    def wait(self, ms):
        if not self.down:
            self._wait()

    def _wait(self):
        # The client waits for an answer: the broker has one, or never will.
        self.peer.out.handled()
        if self.patience != 0:
            self.peer.arrive()
        if self.patience == 0 or not self.peer.answers:
            self.tear(self.arrive)
            raise OSError(ETIMEDOUT, "no answer")
        if self.patience:
            self.patience -= 1
        self.down = self.peer.next()

    def tear(self, arrive=None):
        """The connection breaks; so many packets still arrive. The client learns of it when it next reads or writes."""
        self.broken = True
        self.peer.disconnected(arrive)

    def close(self):
        if not self.broken:
            self.peer.disconnected()


class Device(Client):
    """A client whose links are Wires. `failure`: what it told the application of and should not have."""

    def __init__(self, journal, peer, **options):
        self.peer = peer
        self.patience = self.arrive = None  # of the next Wire
        self.failure = None
        super().__init__("", "dev", journal, keepalive=0, retry_ms=0, timeout_ms=10**8, on_error=self._note, **options)

    def _note(self, error):
        expected = (OSError, HandlerError, MemoryError)
        if not isinstance(error, (*expected, ProtocolError) if self.peer.provoked else expected):
            self.failure = error

    def _do_step(self, step):
        if step == OPEN:
            self._transport = Wire(self.peer, self.patience, self.arrive)
            step = REQUEST  # which waits likewise
        super()._do_step(step)

    @property
    def wire(self):
        """The connection, None if the client has none."""
        return self._transport

    @property
    def journal(self):
        return self.session.journal

    def hand(self, raw):
        """The client reads this, and does what it has to."""
        self._transport.down += raw
        while self._transport and self._transport.down:
            self.turn()
        self.peer.out.handled()

    def turn(self):
        """Writes what is due and reads what has come, as run_for() does."""
        try:
            self._check_interrupted()
            if self._transport:
                self._poll(0)
        except MemoryError as error:
            self.peer.power_cut(None)  # whatever was under way
            self._connection_failed(error)
        except (OSError, ProtocolError) as error:
            self._connection_failed(error)


def aged(setup):
    """Flash as a setup of the World describes it."""
    flash = NorFlash(setup["sectors"], setup["size"], GRANULARITIES[setup["granularity"]])
    names = ("granularity", "sectors", "size", "age", "last_mid", "stuck")
    flash.restore(_old(*(setup[name] for name in names)))
    return flash


@lru_cache(256)
def _old(granularity, sectors, size, age, last_mid, stuck):
    """A snapshot of flash with a journal on it: `age` messages came and went, the last one with the id `last_mid`; so
    many received ids (`stuck`) stand before them and are alive. age None: the flash is blank."""
    flash = NorFlash(sectors, size, GRANULARITIES[granularity])
    if age is not None:
        journal = mounted(flash)
        for mid in range(60001, 60001 + stuck):
            journal.mark(journal.append(IN, mid, b"", 0), RELEASED)
        for k in range(age - 1, -1, -1):
            mid = (last_mid - 1 - k) % 65535 + 1
            journal.mark(journal.append(OUT, mid, bytes(90), 40 + k % 50), DONE)
    return flash.snapshot()


def mounted(flash):
    """The Journal on flash, the same again where it is formatted now."""
    urandom, os.urandom = os.urandom, lambda n: SECRETS[:n]
    try:
        return Journal(flash)
    finally:
        os.urandom = urandom
