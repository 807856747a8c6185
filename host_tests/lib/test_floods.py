"""A broker that sends without end: whatever it sends, the client's own timers go on, and so do other tasks. On virtual
time: a byte takes 40 microseconds. (device/lib/test_websocket.py: frames without end.)"""

import asyncio
import itertools
import socket

import pytest

from host_tests.lib import aio_clients
from host_tests.thorough import more
from inflight.level5.authentication import Authentication
from inflight.packet import ProtocolError
from tools.reference import wire
from tools.reference.kinds import CONNECT, SUBSCRIBE
from tools.reference.properties import block

TIMEOUT_MS = 50
KEEPALIVE_S = 1
MOST_MS = 110 * TIMEOUT_MS  # the longest that a client waits for an answer, behind long messages
LIMIT_MS = KEEPALIVE_S * 1000 + 2 * MOST_MS  # the test ends


class Endless:
    """A connected socket to a broker that answers the packets that `answers` has ({kind: function of the packet}), and
    sends `flood`, an iterator of bytes, when these were sent."""

    def __init__(self, clock, flood, answers):
        self._clock, self._flood, self._answers = clock, flood, answers
        self._due = b""
        self._owed = len(answers)  # packets to be answered before the flood begins
        self._packets = wire.Stream()
        self._readable, self._other = socket.socketpair()  # there is always something to read
        self._other.send(b"x")
        self.fileno = self._readable.fileno
        self.setsockopt = self.setblocking = lambda *what: None
        self.began = clock.now
        self.closed = False

    @property
    def ms(self):
        return (self._clock.now - self.began) * 1000

    def recv_into(self, view, n):
        assert self.ms < LIMIT_MS, "the client reads for ever"
        if not self._due and not self._owed:
            self._due = next(self._flood)
        n = min(n, len(self._due))
        self._clock.now += (n or 25) * 40e-6
        view[:n] = self._due[:n]
        self._due = self._due[n:]
        if not n:
            raise BlockingIOError
        return n

    def send(self, data):
        self._packets.bytes_received(bytes(data))
        for packet in iter(self._packets.next_packet, None):
            if packet.kind in self._answers and self._owed:
                self._due += self._answers[packet.kind](packet)
                self._owed -= 1
        return len(data)

    def close(self):
        if not self.closed:
            self.closed = True
            self._readable.close()
            self._other.close()


def counted(none, qos):
    """Messages of QoS 1 or 2, each with the next Message ID."""
    for mid in itertools.cycle(range(1, 65536)):
        yield wire.publish("t", b"x", qos, mid, 0, 0, none)


# Every type of packet that a broker can send: its bytes, or an iterator of bytes. none: the properties of a packet that
# has none.
PACKETS = {
    "CONNACK": lambda none: wire.connack(0, 0, none),
    "PUBLISH 0": lambda none: wire.publish("t", b"x", properties=none),
    "PUBLISH 0, empty": lambda none: wire.publish("t", b"", properties=none),
    "PUBLISH 1": lambda none: counted(none, 1),
    "PUBLISH 2": lambda none: counted(none, 2),
    "PUBLISH, long": lambda none: wire.publish("t", bytes(20_000), properties=none),
    "PUBLISH, too long a topic": lambda none: wire.publish("t" * 2000, b"x", properties=none),
    "PUBLISH, malformed": lambda none: b"\x30\x03\x00\x01\xff",
    "PUBACK": lambda none: wire.puback(40_000),
    "PUBREC": lambda none: wire.pubrec(40_000),
    "PUBREL": lambda none: wire.pubrel(40_000),
    "PUBCOMP": lambda none: wire.pubcomp(40_000),
    "SUBACK": lambda none: wire.suback(40_000, 0, properties=none),
    "UNSUBACK": lambda none: wire.unsuback(40_000, *((0,) if none else ())),
    "PINGRESP": lambda none: wire.pingresp(),
    "DISCONNECT": lambda none: wire.disconnect(0),
    "AUTH": lambda none: wire.auth(0x18, block((0x15, "M"), (0x16, b"?"))),
    "reserved type": lambda none: b"\x00\x00",
}

# What the client answers, as the standard says, or what is an answer: it sends no PINGREQ, or has its PINGRESP.
LIVELY = ("PUBLISH 1", "PUBREC", "PUBREL", "PINGRESP")

FLOODS = [(f"{name}, level {level}", name, level) for name in PACKETS for level in (4, 5)]
# Each packet at one of the levels, and with INFLIGHT_TOOLS=1 at the other.
SOME = FLOODS[::4] + FLOODS[3::4]


def of_kinds(*floods):
    return pytest.mark.parametrize("kind", floods, ids=lambda flood: flood[0])


of_each_kind = of_kinds(*SOME, *more(*FLOODS[1::4], *FLOODS[2::4]))


@pytest.fixture
def flood(kind, clock, monkeypatch):
    """begin(answers): the next connections are those to a broker with such a flood. Returns the arguments of the
    client, and the list of these connections."""
    _, name, level = kind
    made = []

    def begin(*kinds):
        none = b"\0" if level == 5 else None
        known = {
            CONNECT: lambda p: wire.connack(0, 0, none),
            SUBSCRIBE: lambda p: wire.suback(p.mid, *(qos for _, qos in p.filters), properties=none),
        }
        answers = {kind: known[kind] for kind in kinds}

        def connect(*where):
            sent = PACKETS[name](none)
            endless = itertools.repeat(sent * (4096 // len(sent) + 1)) if isinstance(sent, bytes) else sent
            made.append(Endless(clock, endless, answers))
            return made[-1]

        async def connect_aio(*where):
            return connect()

        monkeypatch.setattr("inflight.net.transport.open_socket", connect)
        monkeypatch.setattr("inflight.client.aio.open_socket", connect_aio)
        options = {"timeout_ms": TIMEOUT_MS, "keepalive": KEEPALIVE_S, "backoff_ms": (100, 100)}
        options["protocol_level"] = level
        if "AUTH" in name and level == 5:
            options["auth"] = Authentication("M", lambda data: b"me")
            answers[CONNECT] = lambda p: wire.connack(0, 0, block((0x15, "M")))
        return options, made

    begin.lively = name in LIVELY
    yield begin
    for connection in made:
        connection.close()


@of_each_kind
def test_the_time_of_run_for(flood, make):
    """It returns when its time has passed, and a broker that never answers a PINGREQ loses the connection.
    [MQTT-3.12.4-1]"""
    options, made = flood(CONNECT, SUBSCRIBE)
    client = make(1, device=False, on_message=lambda message: None, **options)
    client.subscribe("t", 2)
    client.connect()
    client.run_for(200)
    assert made[0].ms <= 250
    while not (made[0].closed or flood.lively):
        client.run_for(500)


@pytest.mark.parametrize("client_kind", ["blocking", "asyncio"])
@of_kinds(*SOME)
def test_waiting_for_an_answer(flood, make):
    """Instead of CONNACK or SUBACK there is a flood: it does not keep the caller for ever."""
    for answered in ((), (CONNECT,)):
        options, made = flood(*answered)
        client = make(1, device=False, reconnect=False, **options)
        client.subscribe("t", 2, lambda message: None)
        with pytest.raises((OSError, ProtocolError)):
            client.connect()
        assert made[-1].ms <= MOST_MS
        assert made[-1].closed


@of_each_kind
def test_publishing_and_leaving(flood, make):
    """drain() ends with its time, and disconnect() is not held up."""
    options, made = flood(CONNECT)
    client = make(1, reconnect=False, **options)
    try:
        client.connect()
        client.publish("out", b"x", 1)
        assert not client.drain(500)
    except (OSError, ProtocolError):
        pass  # it ended the connection
    client.disconnect()
    assert made[0].ms <= 1000
    assert made[0].closed


@of_kinds(*SOME[::3])
def test_other_tasks(flood):
    """[MQTT-3.12.4-1] With asyncio other tasks have their turns, and the keep alive ends what has no PINGRESP."""
    options, made = flood(CONNECT, SUBSCRIBE)
    client = aio_clients.make(1, device=False, **options)

    async def scene():
        await client.subscribe("t", 2, lambda message: None)
        async with client:
            await aio_clients.until(lambda: made and (made[0].closed or flood.lively))
            for _ in range(100):
                await asyncio.sleep(0)

    aio_clients.run(scene())
    assert made[0].ms <= KEEPALIVE_S * 1000 + MOST_MS
