"""Any call of the blocking client is interrupted at any line of the library; then any other call brings the client
back: nothing is lost, doubled or discarded, and no journal stays held."""

import itertools

import pytest

from host_tests.broker import PATIENCE_S, Automatic
from host_tests.lib.test_interrupts import at_line
from host_tests.thorough import ALL_CUTS
from inflight import Client, Journal, RamFlash
from inflight.packet import ProtocolError

MS = PATIENCE_S * 1000
STRIDE = 131
OPTIONS = {"timeout_ms": MS, "backoff_ms": (0, 0), "max_inflight": 4}


class Device:
    """A client with a journal that holds messages, and its application."""

    def __init__(self, broker):
        self.broker = broker
        self.flash = RamFlash(16, 4096)
        self.journal = Journal(self.flash)
        self.accepted = []  # payloads; those of QoS 2 begin with "2"
        self.came = []
        self.errors = []
        self.client = None
        self.make()
        for k in range(6):
            self.publish(k % 2 + 1)

    def make(self):
        options = {**OPTIONS, "port": self.broker.port, "on_error": self.errors.append}
        self.client = None
        self.client = Client("127.0.0.1", "dev", self.journal, **options)

    def publish(self, qos=1):
        payload = b"%d %d" % (qos, len(self.accepted))
        self.accepted.append(payload)
        self.client.publish("t", payload, qos)

    def subscribe(self):
        self.client.subscribe("in", 2, lambda message: self.came.append((bytes(message.payload), message.redelivered)))


CALLS = {
    "constructor": (False, lambda d: d.make()),
    "connect": (False, lambda d: d.client.connect()),
    "run_for": (False, lambda d: d.client.run_for(1)),
    "run_for, connected": (True, lambda d: d.client.run_for(1)),
    "drain": (True, lambda d: d.client.drain(MS)),
    "publish": (True, lambda d: d.publish(2)),
    "publish, offline": (False, lambda d: d.publish(1)),
    "subscribe": (True, lambda d: d.subscribe()),
    "disconnect": (True, lambda d: d.client.disconnect()),
    "ping": (True, lambda d: d.client.ping()),
}
WAYS = {
    "run_for": lambda d: d.client.run_for(1),
    "drain": lambda d: (d.client.pending or d.publish(1), d.client.drain(MS)),
    "publish": lambda d: (d.publish(1), d.client.run_for(1)),
    "connect": lambda d: d.client.connected or d.client.connect(),
}


def interrupted(call, k, error, way):
    """Interrupts the call at line k, brings the client back by `way`, and judges. Returns how many lines ran."""
    connected, do = CALLS[call]
    with Automatic() as broker:
        device = Device(broker)
        if connected:
            device.subscribe()
            device.client.connect()
            broker.give("in", b"before", 2)
        accepted = len(device.accepted)
        with at_line(k, error) as lines:
            try:
                do(device)
                ended = True
            except error:
                ended = False
        if not ended and len(device.accepted) > accepted:
            device.accepted.pop()  # perhaps it was taken
        if not device.client:
            device.make()
        client = device.client
        assert client.pending <= len(device.accepted) + 1
        if call == "disconnect" and ended:
            client.connect()
        for _ in range(100):
            if client.connected and not client.pending:
                break
            try:
                WAYS[way](device)
            except OSError as told:
                assert "interrupted" in str(told), told
        assert client.connected, f"{way} does not bring the client back"
        assert client.drain(MS)
        device.subscribe()
        broker.give("in", b"after", 2)
        while (b"after", False) not in device.came:
            client.run_for(1)
        if connected:
            assert device.came.count((b"before", False)) <= 1, device.came
            assert {(b"before", False), (b"before", True)}.intersection(device.came)
        assert device.came.count((b"after", False)) == 1
        assert client.pending == 0
        client.disconnect()
        Client("127.0.0.1", "dev", device.journal)  # nobody holds it
        arrived = broker.payloads()
        assert sorted(set(device.accepted).difference(arrived)) == []
        assert [p for p in arrived if p.startswith(b"2") and arrived.count(p) > 1] == []
        assert not [e for e in device.errors if isinstance(e, ProtocolError)]
        assert Journal(device.flash).live == 0
    return k - lines.left


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_interrupted_at_any_line(call, error):
    ways = itertools.cycle(WAYS)
    k = 0
    while True:
        way = next(ways)
        try:
            if interrupted(call, k, error, way) <= k:
                return
        except (AssertionError, OSError, ValueError, ProtocolError) as found:
            raise AssertionError(f"{call} at line {k}, then {way}: {found!r}") from found
        k += 1 if ALL_CUTS else STRIDE
