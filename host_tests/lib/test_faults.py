"""Fault injection: connections cut at every packet and every byte; acknowledgements lost, repeated or out of order;
brokers that lose sessions or never answer; power cuts at each of these. No message may be lost, no QoS 2 message
delivered twice."""

import errno
import functools
import random
from collections import Counter
from unittest.mock import Mock

import pytest

from host_tests.broker import Faults
from host_tests.lib.either import only_blocking
from host_tests.thorough import more, some
from inflight import OutboxFull, RamFlash
from nor import NorFlash, PowerCut
from tools.reference.kinds import CONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL
from tools.reference.oracle import judge
from tools.reference.wire import publish

BOTH_CLIENTS = True

OUT = [(f"t/{k}", b"message %d" % k, qos) for k, qos in enumerate((1, 2, 2, 1, 2))]
IN = [(f"cmd/{k}", b"command %d" % k, qos) for k, qos in enumerate((2, 1, 2))]


class Run:
    """One run of a client, or several, with an Automatic broker; `check` gives the verdict."""

    def __init__(
        self, make, automatic, faults=None, restart=False, again=False, flash=None, out=OUT, gifts=IN, **options
    ):
        self.make, self.automatic, self.out, self.gifts = make, automatic, out, gifts
        self.options = {"timeout_ms": 2000, **options}
        self.idle = -1  # steps without progress
        self.again = again  # end the connection when there is no progress
        self.device = flash or RamFlash()
        self.got = []
        self.lives = 0
        self.restart = restart
        self.faults = faults or Faults()
        self.client = None
        self.published = 0

    def handler(self, message):
        self.got.append((message.topic, message.payload, message.qos, message.redelivered))

    def born(self, port):
        if self.client:
            self.make.cut_power(self.client)
        self.lives += 1
        self.client = self.make(port, self.device, **self.options)
        self.client.subscribe("cmd/#", 2, self.handler)
        if self.restart:
            # A lost connection also means a power cut here.
            self.client.on_error = self.die

    def die(self, error):
        raise PowerCut

    def go(self):
        with self.automatic(self.faults) as broker:
            self.broker = broker
            for gift in self.gifts:
                broker.give(*gift)
            self.born(broker.port)
            end = broker.clock.now + 60
            while not self.done():
                assert broker.clock.now < end, self.state()
                assert self.lives < 40
                try:
                    self.step()
                except PowerCut:
                    self.born(broker.port)
        self.check()
        return self

    def step(self):
        if self.published < len(self.out):
            topic, payload, qos = self.out[self.published]
            self.published += 1  # accepted, or interrupted after it was accepted
            self.client.publish(topic, payload, qos=qos)
        elif self.again:
            self.idle += 1
            if self.idle > 20:
                self.idle = 0
                self.broker.connections[-1].finish()
        self.client.run_for(1)

    def done(self):
        return (
            self.published == len(self.out)
            and not self.client.pending
            and self.client.connected
            and len(self.got) >= len(self.gifts)
            and not any(s.flight for s in self.broker.sessions.values())
        )

    def state(self):
        return f"published {self.published}, pending {self.client.pending}, got {self.got}, {self.client.counters()}"

    def check(self):
        arrived = [(m.topic, m.payload, m.qos) for m in self.broker.arrived]
        lost, twice, _ = judge({message: message[2] for message in self.out}, Counter(arrived))
        assert not lost, f"arrived: {arrived}"
        assert not twice
        assert set(arrived) == set(self.out)
        firsts = sorted(set(arrived), key=arrived.index)
        if not self.client.counters()["set_aside"]:  # that costs a message its place in the order
            assert firsts == self.out, "out of order"
        lost, twice, _ = judge({gift[:2]: gift[2] for gift in self.gifts}, Counter(g[:2] for g in self.got))
        assert not lost and not twice, f"handed over: {self.got}"
        assert not any(g[3] for g in self.got), "no handler was interrupted"


@pytest.fixture
def make_run(make, automatic):
    """make_run(...): a Run, on virtual time."""
    return functools.partial(Run, make, automatic)


def total(make_run, what, **options):
    return make_run(**options).go().broker.total[what]


@pytest.mark.parametrize("restart", [False, True], ids=["cut", "restart"])
@pytest.mark.parametrize("what", ["in_packets", "out_packets"])
def test_cut_after_every_packet(make_run, what, restart):
    """[MQTT-4.1.0-1] [MQTT-4.1.0-2] [MQTT-4.4.0-1] [MQTT-3.3.1-1] [MQTT-4.6.0-1] [MQTT-2.3.1-3] [MQTT31-13] The
    connection is cut, or the power, after the k-th packet, for every k; every other one with a reset."""
    n = total(make_run, what)
    for k in range(1, n + 1):
        run = make_run(Faults(**{what: k}, reset=bool(k % 2)), restart).go()
        assert run.broker.cuts == 1 or k == n, k
    print(f"{n} cut points")


LONG_OUT = [("t", bytes(range(256)) * 2, 2), ("t", b"short", 1)]
CUT_AT_BYTES = {
    "short messages": ({}, 4),
    "long payloads": ({"buffer": bytearray(256), "out": LONG_OUT, "gifts": []}, 7),
    "level 5": ({"protocol_level": 5}, 4),
}


@only_blocking
@pytest.mark.parametrize("what", ["in_bytes", "out_bytes"])
@pytest.mark.parametrize("case", CUT_AT_BYTES)
def test_cut_after_every_byte(make_run, case, what):
    """[MQTT-4.1.0-1] [MQTT-4.4.0-1] [MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT-4.3.3-2] [MQTT5-3.1.2-5] [MQTT5-3.3.1-1]
    [MQTT5-4.1.0-1] [MQTT5-4.3.2-3] [MQTT5-4.3.3-3] [MQTT5-4.3.3-5] [MQTT5-4.4.0-1] [MQTT5-4.6.0-1] The connection is
    cut, in turn with a restart; at level 5 some continue at level 4."""
    options, step = CUT_AT_BYTES[case]

    def run(faults=None, **how):
        return make_run(faults, flash=RamFlash(4, 2048), **how, **options)

    n = run().go().broker.total[what]
    for k in some(range(1, n + 1), step):
        cut = run(Faults(**{what: k}), restart=k % 3 > 0)
        if case == "level 5" and k % 3 == 2:
            cut.faults.after_cut = lambda cut=cut: cut.options.update(protocol_level=4)
        cut.go()
    print(f"{n} cut points")


@only_blocking
@pytest.mark.parametrize("what", ["in_bytes", "out_bytes"])
def test_cut_while_a_long_payload_arrives(make, automatic, what):
    """[MQTT-4.3.3-2] [MQTT-4.3.2-2] A payload that arrives in chunks starts again at offset 0; at QoS 2 it is
    completed once."""
    gifts = [("cmd/a", bytes(range(256)) * 2, 2), ("cmd/b", bytes(range(255, -1, -1)) * 2, 1), ("cmd/c", b"short", 2)]

    class Streaming(Run):
        def handler(self, message):
            if not message.offset:
                self.parts = b""
            assert len(self.parts) == message.offset
            self.parts += message.payload
            if len(self.parts) == message.size:
                self.got.append((message.topic, self.parts, message.qos, False))

        def born(self, port):
            super().born(port)
            self.client.subscribe("cmd/#", 2, self.handler, stream=True)

    def play(faults=None, restart=False):
        return Streaming(make, automatic, faults, restart, out=[], gifts=gifts, buffer=bytearray(256)).go()

    for k in some(range(1, play().broker.total[what] + 1, 1 if what == "in_bytes" else 7), 4):
        play(Faults(**{what: k}), bool(k % 2))


@only_blocking
def test_level_5_sessions_lost(make_run):
    """[MQTT5-3.1.2-6] [MQTT5-3.2.2-3] [MQTT5-3.2.2-5] The broker loses the session with the connection: nothing is
    lost; at QoS 1 what it had not acknowledged comes again."""
    out = [(topic, payload, 1) for topic, payload, _ in OUT]
    for what in ("in_packets", "out_packets"):
        n = total(make_run, what, protocol_level=5, out=out, gifts=[])
        for k in range(1, n + 1):
            run = make_run(Faults(**{what: k}), restart=bool(k % 2), protocol_level=5, out=out, gifts=[])
            run.faults.after_cut = lambda run=run: run.broker.forget()
            run.go()


ACKS = (PUBACK, PUBREC, PUBREL, PUBCOMP)


@only_blocking
def test_answers_lost_repeated_and_out_of_order(make_run):
    """[MQTT-4.4.0-1] [MQTT-4.3.2-1] [MQTT-4.3.2-2] [MQTT-4.3.3-1] [MQTT-4.3.3-2] [MQTT31-11] [MQTT31-14] [MQTT31-15]
    For a lost acknowledgement the client waits until the next connection, then repeats its packet. Each packet of a
    kind comes twice; each two acknowledgements are swapped."""
    for kind in ACKS:
        for n in (1, 2):
            seen = []

            def lose(raw, kind=kind, n=n, seen=seen):
                seen.extend([raw] * (raw[0] >> 4 == kind))
                return [] if raw[0] >> 4 == kind and len(seen) == n else [raw]

            run = make_run(Faults(answer=lose), again=True).go()
            assert len(seen) > n and len(run.broker.connections) >= 2
    for kind in (*ACKS, PUBLISH):
        gifts = [gift for gift in IN if gift[2] == 2] if kind == PUBLISH else IN
        make_run(Faults(answer=lambda raw, kind=kind: [raw] * (2 if raw[0] >> 4 == kind else 1)), gifts=gifts).go()
    for kind in (PUBACK, PUBREC, PUBCOMP):
        held = []

        def swap(raw, kind=kind, held=held):
            if raw[0] >> 4 != kind:
                return [raw]
            held.append(raw)
            return [held.pop(), held.pop()] if len(held) == 2 else []

        make_run(Faults(answer=swap), out=[("t", b"%d" % k, 1 + k % 2) for k in range(8)], gifts=[]).go()


@only_blocking
def test_cut_with_a_small_window_and_at_level_3(make_run):
    """[MQTT-4.6.0-1] [MQTT-4.6.0-6] [MQTT31-9] [MQTT31-13] [MQTT31-22] Queued messages keep their order. At level 3
    CONNACK has no session present flag."""
    for options in (*({"max_inflight": n} for n in (1, 2, 3)), {"protocol_level": 3, "out": OUT[:3], "gifts": []}):
        n = total(make_run, "in_packets", **options)
        for k in range(1, n):
            make_run(Faults(in_packets=k), restart=bool(k % 2), **options).go()


@pytest.mark.parametrize("seed", [*range(6), *more(*range(6, 24))])
def test_everything_at_once(make_run, seed):
    """[MQTT-4.1.0-1] [MQTT-4.4.0-1] [MQTT-4.3.3-1] [MQTT-4.3.3-2] Random cuts, restarts, lost and repeated answers
    (with a fixed seed) and small windows: nothing is lost, no QoS 2 message comes twice."""
    dice = random.Random(seed)
    out = [(f"t/{k}", b"message %d" % k, dice.choice((1, 2))) for k in range(30)]
    gifts = [(f"cmd/{k}", b"command %d" % k, dice.choice((1, 2))) for k in range(15)]

    def answer(raw):
        if raw[0] >> 4 in ACKS and dice.random() < 0.15:
            return dice.choice(([], [raw, raw]))
        return [raw]

    faults = Faults(answer=answer, in_bytes=dice.randrange(1, 80), reset=bool(seed % 2))
    run = make_run(faults, seed % 3 == 0, True, out=out, gifts=gifts, max_inflight=dice.choice((1, 2, 3, 8)))

    def cut():
        what = dice.choice(("in_bytes", "out_bytes"))
        if run.broker.cuts < 15:
            setattr(faults, what, run.broker.total[what] + dice.randrange(1, 60))

    faults.after_cut = cut
    run.go()
    assert run.broker.cuts > 2


def test_connect_is_never_answered(automatic, make):
    """[MQTT-3.2.2-6] run_for() retries, each time with a time-out, and returns in time."""
    with automatic(Faults(silent=(CONNECT,))) as broker:
        client = make(broker.port, timeout_ms=50)
        client.publish("t", b"1", qos=1)
        start = broker.clock.now
        client.run_for(300)
        assert broker.clock.now - start < 0.4
        assert not client.connected and client.pending == 1
        assert 2 <= len(broker.connections) <= 8


def test_publish_is_never_answered(automatic, make):
    """publish() does not wait for acknowledgements, drain() and disconnect() return in time; the messages are kept."""
    with automatic(Faults(silent=(PUBLISH,))) as broker:
        client = make(broker.port, timeout_ms=2000, max_inflight=2)
        client.connect()
        start = broker.clock.now
        for k in range(10):
            client.publish("t", b"%d" % k, qos=1 + k % 2)
        assert broker.clock.now - start < 0.1
        assert not client.drain(100)
        assert broker.clock.now - start < 0.3
        client.disconnect()
        assert client.pending == 10


def test_broker_that_reads_nothing(broker, make):
    """A write that blocks ends with the time-out."""
    client = make(broker.port, timeout_ms=200)

    with broker.play(lambda b: b.welcome()):
        client.connect()
        start = broker.clock.now
        with pytest.raises(OSError):
            client.publish("t", bytes(20_000_000))
        assert broker.clock.now - start < 0.5
    assert not client.connected


class FailingFlash(NorFlash):
    """Flash whose operations fail while `fail` is set."""

    fail = False

    def __init__(self):
        super().__init__(4, 1024, page=64)

    def _check(self):
        if self.fail:
            raise OSError(5, "flash")

    def readblocks(self, *of):
        self._check()
        super().readblocks(*of)

    def writeblocks(self, *of):
        self._check()
        super().writeblocks(*of)

    def ioctl(self, op, arg):
        self._check()
        return super().ioctl(op, arg)


def test_flash_fails_before_pubrec(automatic, make, pump):
    """[MQTT-4.8.0-2] A flash error while a packet is processed closes the connection. Nothing was delivered or
    acknowledged; after a restart the message comes again."""
    device = FailingFlash()
    got = []
    with automatic() as broker:
        client = make(broker.port, device, backoff_ms=(60_000, 60_000), on_message=lambda m: got.append(m.payload))
        client.subscribe("cmd", 2)
        client.connect()
        device.fail = True
        broker.give("cmd", b"once", 2)
        pump(client, lambda: client.errors)
        assert not got and not client.connected
        assert not any(p.kind == PUBREC for p in broker.connections[0].packets)
        device.fail = False
        client = make(broker.port, device, on_message=lambda m: got.append(m.payload))
        client.connect()
        pump(client, lambda: not any(s.flight for s in broker.sessions.values()))
    assert got == [b"once"]


@pytest.mark.parametrize("online", [False, True])
def test_flash_fails_in_publish(automatic, make, pump, online):
    """publish() raises OSError, and the message is not sent; the client goes on when the flash does."""
    device = FailingFlash()
    with automatic() as broker:
        client = make(broker.port, device)
        if online:
            client.connect()
        device.fail = True
        with pytest.raises(OSError):
            client.publish("t", b"1", qos=1)
        assert client.pending == 0
        if online:
            pump(client, lambda: len(client.errors) > 3)
        device.fail = False
        for payload in (b"2", b"3"):
            client.connect()
            client.publish("t", payload, qos=1)
            assert client.drain(60_000)
            make.cut_power(client)
            client = make(broker.port, device)
            assert client.pending == 0
        assert broker.payloads() == [b"2", b"3"]


@pytest.mark.parametrize("client_kind", ["asyncio"])
def test_flash_fails_with_one_connection(automatic, make):
    """reconnect=False: publish() succeeds, the connection ends, and the client makes no other one."""
    device = NorFlash()
    with automatic() as broker:
        client = make(broker.port, device, reconnect=False)
        client.connect()
        device.fail_at(0)
        assert client.publish("t", b"x", 1)
        with pytest.raises(OSError) as told:
            client.call(client.client.drain, 60_000)  # without `async with` around it
        assert told.value.errno == errno.EIO
    assert broker.payloads() == [] and client.pending == 1


def test_flash_fails_once_in_publish(automatic, make, client_kind):
    """The message is taken when the journal was read anew, with its topic, whatever on_disconnect published."""
    device = NorFlash()
    with automatic() as broker:
        client = make(broker.port, device, on_disconnect=lambda error: client.publish("status", b"gone", qos=1))
        client.connect()
        device.fail_at(0)
        client.publish("t", b"1", qos=1)
        assert client.drain(60_000)
    arrived = [(p.topic, p.payload) for p in broker.arrived]
    if client_kind == "asyncio":  # on_disconnect publishes in a task
        arrived.sort()
    assert arrived == [("status", b"gone"), ("t", b"1")]


def test_flash_fails_once_in_publish_behind_a_full_journal(automatic, make):
    """Also when it has waited for space."""
    device = NorFlash(4, 1024, 64)
    program = device.writeblocks
    failures = [OSError(errno.EIO, "flash")]

    def writeblocks(block, buf, offset=0):
        if b"last" in bytes(buf) and failures:
            raise failures.pop()
        program(block, buf, offset)

    with automatic() as broker:
        client = make(broker.port, device)
        fill(client)
        device.writeblocks = writeblocks
        client.connect()
        assert client.publish("t", b"last", qos=1)
        assert client.drain(60_000)
    assert not failures and broker.payloads()[-1] == b"last"


@only_blocking  # with asyncio, publish() reads nothing
def test_no_memory_for_what_arrives_within_publish(virtual, make, monkeypatch):
    """[MQTT-4.3.3-1] The message was accepted, so publish() returns its id, and nobody publishes it again: what the
    first message without a subscription loads has no space. That message comes again, too."""
    got = []
    client = make(virtual.port, max_inflight=1, on_message=lambda m: got.append(m.redelivered))

    def script(b):
        b.welcome()
        first = b.expect(PUBLISH)
        b.send(publish("t", b"x", 2, 7))
        b.expect_close()
        b.welcome(1)
        b.expect(PUBLISH, mid=first.mid, dup=1)
        b.deliver("t", b"x", 2, 7, 1)
        b.acknowledge(first)
        b.take(qos=2, payload=b"second")

    with virtual.play(script):
        client.connect()
        client.publish("out", b"first", qos=2)
        virtual.idle()
        with monkeypatch.context() as now:
            now.setattr("inflight.client.handlers.Message", Mock(side_effect=MemoryError))
            assert client.publish("out", b"second", qos=2)
        assert client.drain(60_000)
    assert got == [True] and client.counters()["accepted"] == 2


def test_connection_lost_while_publish_waits_for_space(automatic, make):
    """The journal is full: publish() raises OutboxFull, when the time-out has passed, or the connection is lost."""
    with automatic(Faults(silent=(PUBLISH,))) as broker:
        client = make(broker.port, timeout_ms=1000)
        fill(client)
        client.connect()
        start = broker.clock.now
        with pytest.raises(OutboxFull):
            client.publish("t", b"%060d" % 0, qos=1)
        assert 0.9 < broker.clock.now - start < 1.4
        broker.connections[-1].finish()
        with pytest.raises(OutboxFull):
            client.publish("t", b"%060d" % 0, qos=1)


def fill(client):
    n = 0
    while True:
        try:
            client.publish("t", b"%060d" % n, qos=1)
        except OutboxFull:
            return n
        n += 1
