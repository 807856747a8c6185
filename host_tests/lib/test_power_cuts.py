"""Power cut at every program, every erase and every byte within them, while messages of QoS 1 and 2 go both ways.

The session stands on a model of NOR flash, and talks to a broker that is no code of ours: it keeps the rules of
MQTT 3.1.1 in the plainest way, and counts. After each cut the device starts again from that flash, connects again,
and finishes its work. Nothing that publish() accepted may be lost, no QoS 2 message may come twice."""

from collections import Counter

import pytest

from broker import (
    CONNECT,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    connack,
    parse,
    puback,
    pubcomp,
    publish,
    pubrec,
    pubrel,
)
from inflight import Journal, OutboxFull
from inflight.session import Session
from nor import NorFlash, PowerCut, after, before, mixed, scattered, torn

GRANULARITIES = {"page-1": (1, False), "page-4": (4, False), "page-16-once": (16, True), "page-256": (256, False)}
# (QoS, size of the payload) of what the device publishes; sizes that end in all places of a page.
OUT = [(1, 30), (2, 40), (2, 1), (1, 64), (2, 90), (1, 0), (2, 64), (1, 17)]
IN = [(2, b"open"), (1, b"level"), (2, b"close"), (2, b"open again")]


class Peer:
    """A broker with one persistent session. `got` counts the payloads that it took over, `back`
    the Message IDs of its own messages that are not completed: [mid, payload, qos, released]."""

    def __init__(self):
        self.got = Counter()
        self.held = {}  # QoS 2 ids that await their PUBREL, and their payloads
        self.back = []
        self.known = False
        self._next = 1

    def give(self, qos, payload):
        self.back.append([self._next, payload, qos, False])
        self._next += 1

    def connect(self):
        """Answers CONNECT, and sends again what is not completed."""
        answer = [connack(int(self.known))]
        self.known = True
        for mid, payload, qos, released in self.back:
            answer.append(pubrel(mid) if released else publish("dev/cmd", payload, qos, mid, dup=1))
        return answer

    def take(self, raw):
        """Returns the answers to a packet of the client."""
        p = parse(raw)
        if p.kind == CONNECT:
            assert not p.clean
            return self.connect()
        if p.kind == PUBLISH and p.qos == 1:
            self.got[p.payload] += 1
            return [puback(p.mid)]
        if p.kind == PUBLISH:
            if p.mid not in self.held:
                self.got[p.payload] += 1
                self.held[p.mid] = p.payload
            assert self.held[p.mid] == p.payload, "an id in use carries another message"
            return [pubrec(p.mid)]
        if p.kind == PUBREL:
            self.held.pop(p.mid, None)
            return [pubcomp(p.mid)]
        return self._answered(p)

    def _answered(self, p):
        for entry in self.back:
            if entry[0] == p.mid:
                if p.kind == PUBREC:
                    entry[3] = True
                    return [pubrel(p.mid)]
                self.back.remove(entry)
                break
        assert p.kind in (PUBACK, PUBREC, PUBCOMP), p
        return []


class World:
    """A device that publishes OUT and receives IN, from its flash and on it."""

    def __init__(self, flash, peer, window=3):
        self.flash, self.peer, self.window = flash, peer, window
        self.published = 0  # of OUT, accepted or not
        self.accepted = []
        self.heard = []  # (payload, redelivered)

    def start(self):
        """A power-on: everything but the flash begins anew."""
        self.flash.power_on()
        self.session = Session(Journal(self.flash), bytearray(256), b"dev", window=self.window)

    def work(self):
        """Connects, publishes what is left of OUT, and talks until nobody has anything to say."""
        self.session.connect(0, False, 60, None, None, None)
        self._talk()
        assert self.session.connected
        self.session.resume()
        while self.published < len(OUT):
            qos, size = OUT[self.published]
            payload = b"%d:" % self.published + b"x" * size
            self.published += 1
            try:
                self.session.publish(b"dev/t", payload, qos, False)
            except OutboxFull:
                self._talk()
                self.session.publish(b"dev/t", payload, qos, False)
            self.accepted.append(payload)
            if self.published % 2:
                self._talk()
        self._talk()
        self.session._journal.tidy()

    def _talk(self):
        answers = self._outputs()
        while answers:
            self._feed(answers.pop(0))
            answers += self._outputs()

    def _outputs(self):
        s = self.session
        answers, raw = [], b""
        n = s.output(0)
        while n:
            raw += bytes(s.out[s.out_at : s.out_at + n])
            if not s._left:
                answers += self.peer.take(raw)
                raw = b""
            n = s.output(0)
        return answers

    def _feed(self, data):
        s = self.session
        s.decoder.view[: len(data)] = data
        s.decoder.fed(len(data))
        while kind := s.receive(0):
            if kind == PUBLISH:
                if s.deliver:
                    d = s.decoder
                    self.heard.append((bytes(d.buf[d.at : d.at + d.n]), s.redelivered))
                s.taken()

    def judge(self):
        """Everything is over: who has what?"""
        for payload in self.accepted:
            assert self.peer.got[payload], f"{payload} was accepted and is lost"
        for i, (qos, _) in enumerate(OUT):
            for payload, n in self.peer.got.items():
                if payload.startswith(b"%d:" % i) and qos == 2:
                    assert n == 1, f"{payload} came {n} times"
        for qos, payload in IN:
            heard = [again for what, again in self.heard if what == payload]
            assert heard, f"{payload} never reached the application"
            if qos == 2:
                # Again only where the cut came while it was being handed over, and then it says so.
                assert all(heard[1:]) and len(heard) <= 2, f"{payload} was delivered {len(heard)} times"
        assert not self.session.pending and not self.peer.back and not self.peer.held


def _old_flash(page, once):
    """Flash whose ring has been around, close to the end of a sector, so that the exchange erases and evacuates."""
    flash = NorFlash(4, 1024, page, once)
    journal = Journal(flash)
    stuck = journal.append(2, 9, b"", 0)
    journal.mark(stuck, 1)
    for _ in range(40):
        journal.mark(journal.append(1, 7, bytes(60), 60), 2)
    return flash.snapshot()


def _perform(image, page, once, cut=None, how=None):
    """Runs the exchange, with a cut at operation `cut`. Returns the operations of the flash."""
    flash = NorFlash(4, 1024, page, once)
    flash.restore(image)
    peer = Peer()
    world = World(flash, peer)
    for qos, payload in IN:
        peer.give(qos, payload)
    operations = []
    flash.watch = lambda name, at, old, new: operations.append((name, old, new))
    if cut is not None:
        flash.cut_at(cut, how)
        try:
            world.session = Session(Journal(flash), bytearray(256), b"dev", window=world.window)
            world.work()
            raise AssertionError("no cut")
        except PowerCut:
            pass
    world.start()
    world.work()
    if peer.back or world.session.pending:
        world.start()
        world.work()
    world.judge()
    return operations


def _ways(name, old, new):
    """How an operation may be cut: on its sides, at every byte that changes, and in disorder."""
    yield before
    yield after
    places = [i for i in range(len(new)) if new[i] != old[i]]
    for i in places:
        yield torn(i, 0x5A)
    yield mixed(0xA5) if name == "erase" else scattered(3)


@pytest.mark.limit(300)
@pytest.mark.usefixtures("quick_crc")
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_nothing_accepted_is_lost_and_nothing_comes_twice(granularity, record_property):
    """[MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT-4.3.3-2] [MQTT-4.4.0-1] [MQTT-4.1.0-1] [MQTT-2.3.1-3] [MQTT-3.3.1-1] At every
    operation of the flash, and at every byte within it."""
    page, once = GRANULARITIES[granularity]
    image = _old_flash(page, once)
    operations = _perform(image, page, once)
    assert any(name == "erase" for name, _, _ in operations)
    cuts = 0
    for k, (name, old, new) in enumerate(operations):
        for how in _ways(name, old, new):
            _perform(image, page, once, k, how)
            cuts += 1
    record_property("cut points", cuts)
    print(f"\n{granularity}: {cuts} power cuts, 0 lost, 0 QoS 2 duplicates")
    assert cuts > 1000
