"""Proxies that simulate bad networks between a device and its broker. TCP hides packet loss and reordering: they appear
to a connection as delays and bursts, and are simulated as such."""

import asyncio
import contextlib
from collections import Counter


class Line:
    """A connection of a device, and the proxy's connection to the broker for it."""

    def __init__(self, reader, writer, connect, random):
        self.device = reader, writer
        self.broker = None
        self.random = random
        self._connect = connect

    async def through(self, up=None, down=None, limit=None):
        """Forwards in both directions until one side closes, for at most `limit` seconds. `up`, `down`: how to forward
        data from the device and from the broker. The connection to the broker stays open afterwards."""
        self.broker = await self._connect()
        (from_device, to_device), (from_broker, to_broker) = self.device, self.broker
        both = [
            asyncio.ensure_future(_carry(from_device, to_broker, up or _at_once)),
            asyncio.ensure_future(_carry(from_broker, to_device, down or _at_once)),
        ]
        try:
            await asyncio.wait(both, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()
            await asyncio.wait(both)

    async def silence(self):
        """Discards all data and keeps the connection open until the device closes it."""
        with contextlib.suppress(OSError):
            while await self.device[0].read(65536):
                pass

    def close(self, abruptly):
        """Closes both connections, with FIN or (abruptly) with RST."""
        for _, writer in filter(None, (self.device, self.broker)):
            writer.transport.abort() if abruptly else writer.close()


class _Cut(Exception):
    """The connection is cut within the data."""


async def _carry(reader, writer, pieces):
    with contextlib.suppress(OSError, _Cut):
        while data := await reader.read(65536):
            for wait, piece in pieces(data):
                if wait:
                    await asyncio.sleep(wait)
                writer.write(piece)
                await writer.drain()


def _at_once(data):
    yield 0, data


def _late(random, seconds):
    def pieces(data):
        yield seconds * random.uniform(0.8, 1.2), data

    return pieces


def _lossy(random):
    # One segment in five is lost; a retransmission is lost with the same probability, and the time-out doubles each
    # time. TCP delivers later segments only with the missing one.
    def pieces(data):
        wait = 0.0
        timer = 0.2
        while random.random() < 0.2 and timer < 2:
            wait += timer
            timer *= 2
        yield wait, data

    return pieces


def _sliced(size, wait):
    def pieces(data):
        for at in range(0, len(data), size):
            yield wait, data[at : at + size]

    return pieces


def _until(count):
    # Cuts the connection after `count` bytes.
    left = [count]

    def pieces(data):
        yield 0, data[: left[0]]
        left[0] -= len(data)
        if left[0] <= 0:
            raise _Cut

    return pieces


async def _latency(line):
    seconds = line.random.choice((0.005, 0.02, 0.1, 0.3, 1.0, 2.0)) / 2  # of the round trip
    await line.through(_late(line.random, seconds), _late(line.random, seconds))


async def _frozen(line):
    await line.through(limit=line.random.uniform(0.1, 5))
    await line.silence()


async def _half_open(line):
    await line.through(limit=line.random.uniform(0.1, 5))
    line.broker[1].transport.abort()
    await line.silence()


async def _reset(line):
    await line.through(limit=line.random.uniform(0, 5))
    line.close(True)


async def _cut_out(line):
    await line.through(up=_until(line.random.randrange(1, 600)))
    line.close(True)


async def _captive(line):
    await line.device[0].read(65536)
    line.device[1].write(
        b"HTTP/1.1 302 Found\r\nLocation: http://portal.invalid/login\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )


async def _refused(line):
    line.close(True)


KINDS = {
    "clear": Line.through,
    "latency 5 to 2000 ms": _latency,
    "loss, reordering": lambda line: line.through(_lossy(line.random), _lossy(line.random)),
    "single bytes": lambda line: line.through(_sliced(1, 0), _sliced(1, 0)),
    "narrow, 1.2 KB/s": lambda line: line.through(_sliced(64, 0.05), _sliced(64, 0.05)),
    "slow-loris broker": lambda line: line.through(down=_sliced(1, 1)),
    "black hole": Line.silence,
    "silent after a while": _frozen,
    "half open": _half_open,
    "reset": _reset,
    "cut within a packet, out": _cut_out,
    "cut within a packet, in": lambda line: line.through(down=_until(line.random.randrange(1, 60))),
    "captive portal": _captive,
    "refused": _refused,
}


class Proxy:
    """One kind of bad network. `share`: the part of its connections that have its fault; the others are clear. outage()
    breaks all connections, like an access point that goes off. `connect`: a coroutine function that opens a connection
    to the broker."""

    def __init__(self, kind, connect, random, share=0.6):
        self.kind = kind
        self.connect = connect
        self.connections = Counter()  # by fault, "clear" or "outage"
        self._random = random
        self._share = share
        self._lines = {}  # as an ordered set: a run must be repeatable
        self._down = False

    async def serve(self, reader, writer):
        """Forwards one connection of a device until it ends."""
        name = "outage" if self._down else self.kind if self._random.random() < self._share else "clear"
        self.connections[name] += 1
        line = Line(reader, writer, self.connect, self._random)
        task = asyncio.current_task()
        self._lines[task] = None
        try:
            await (_refused if self._down else KINDS[name])(line)
        except OSError:
            pass  # the broker is down: the device's connection is closed
        except asyncio.CancelledError:
            line.close(True)
            raise
        finally:
            del self._lines[task]
            line.close(False)

    def outage(self):
        """Breaks every connection, and refuses new ones until join()."""
        self._down = True
        self._break()

    def join(self):
        self._down = False

    def end_faults(self):
        """Ends all faults: breaks every connection; new ones are clear."""
        self._share = 0
        self.join()
        self._break()

    def _break(self):
        for task in list(self._lines):
            task.cancel()
