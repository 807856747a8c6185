"""A session with a journal against a broker that sends anything: the only error is ProtocolError, no accepted message
is lost, sent again when it was complete, or delivered twice; tables and flash stay within their bounds; afterwards it
mounts again.

data: a byte (level, window, inbound), then steps: below 0x80 so many bytes from the broker, others as step() tells."""

import struct
from binascii import crc32

from inflight.journal import Journal, OutboxFull
from inflight.packet import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, ProtocolError
from inflight.session import Session
from journal_reader import OUT, RELEASED, Image
from outcome import Outcome, Reader, demand
from worn_flash import blank

_TX = 160
_CONNACK = b"\x20\x02%c\x00"


class Peer:
    """What the harness knows of one message: what went over the wire about it decides what may become of it."""

    def __init__(self, seq, mid, qos, wire):
        self.seq, self.mid, self.qos, self.wire = seq, mid, qos, wire
        self.tried = self.received = self.complete = False  # PUBLISH left once; PUBREC came; it may be done
        self.sent = self.released = False  # PUBLISH, PUBREL left on this connection
        self.orphaned = False  # released to a broker that did not know the session


class World:
    def __init__(self, level, window, inbound, shape):
        self.level, self.window, self.inbound = level, window, inbound
        self.flash, self.shape = blank(shape)
        self.now = 0
        self.messages = []
        self.handed = set()  # ids of QoS 2 messages that the application had, and that were not released
        self.number = Outcome()
        self.start()

    def start(self):
        """Power is back: only the flash is as it was."""
        self.flash.reads = 0
        self.journal = Journal(self.flash)
        buffer = bytearray(2 * _TX)
        for m in self.messages:
            m.orphaned = False
        self.topic = b"t"
        self.session = Session(self.journal, buffer, b"dev", self.level, self.window, self.inbound, 60_000, 20_000)
        self.session.name = self.topic  # so that a message like the last one takes the short way
        self.room = self.session._inbound._room
        self.dead = True
        self.seen = b""

    # --- what the client does ---

    def publish(self, qos, n):
        text = bytes([65 + len(self.messages) % 26]) * n
        seq = self.journal.next_seq
        try:
            mid = self.session.publish(self.topic, text, qos, False)
        except OutboxFull:
            return
        head = bytes([0x30 | qos << 1]) + _varint(5 + n) + b"\0\1t" + struct.pack(">H", mid)
        demand(mid not in [m.mid for m in self.open()], "Message ID %d is in use", mid)
        self.messages.append(Peer(seq, mid, qos, head + text))
        self.flush()

    def open(self):
        return [m for m in self.messages if not m.complete]

    def connect(self, present):
        if not self.dead:
            self.session.lost()
        self.session.connect(self.now, False, 60, None, None, None)
        self.dead = False
        self.seen = b""
        for m in self.messages:
            m.sent = m.released = False
        self.flush()
        if present < 2:
            self.feed(_CONNACK % present)

    def flush(self):
        session = self.session
        n = session.output(self.now)
        turns = 0
        while n:
            self.seen += bytes(session.out[session.out_at : session.out_at + n])
            turns += 1
            demand(turns < 200, "it never stops talking")
            n = session.output(self.now)
        self.listen()

    def feed(self, data):
        """What the broker says; a client reads no more of it when it broke the protocol."""
        at = 0
        d = self.session.decoder
        while at < len(data) and not self.dead:
            n = min(d.space, len(data) - at)
            demand(n > 0, "no room to read into")
            d.view[:n] = data[at : at + n]
            self.session.fed(n, self.now)
            at += n
            self.receive()

    def receive(self):
        session = self.session
        try:
            kind = session.receive(self.now)
            while kind and not self.dead:
                self.heard(kind)
                if kind == PUBLISH:
                    session.taken()
                self.flush()
                if session.code:
                    self.lost()
                    return
                if kind == CONNACK:
                    self.resume()
                kind = session.receive(self.now)
        except ProtocolError:
            self.number.note(99)
            self.lost()

    def resume(self):
        if self.level == 4 and not self.session.present:
            self.handed.clear()
            for m in self.messages:
                m.complete = m.complete or m.orphaned  # nobody is left to answer its PUBREL
                m.orphaned = m.received
        self.session.resume()
        self.flush()

    def lost(self):
        self.session.lost()
        self.dead = True

    # --- what is demanded ---

    def heard(self, kind):
        d = self.session.decoder
        self.number.note(kind, d.mid if kind in (PUBACK, PUBREC, PUBREL, PUBCOMP) else 0)
        if kind == PUBREL:
            self.handed.discard(d.mid)
        elif kind == PUBLISH:
            self.published(d)
        for m in self.open() if PUBACK <= kind <= PUBCOMP else ():
            if m.mid == d.mid:
                m.received = m.received or (kind == PUBREC and m.qos == 2 and m.sent)
                m.complete = kind == PUBACK and m.qos == 1 and m.sent or kind == PUBCOMP and m.released

    def published(self, d):
        if not d.flags & 4 or not self.session.deliver or d.offset:
            return
        again = d.mid in self.handed
        demand(not again or self.session.redelivered, "message %d was handed over twice", d.mid)
        self.handed.add(d.mid)

    def listen(self):
        """What the client said, packet by packet, once it is whole."""
        while self.seen:
            n = k = 0
            while True:
                k += 1
                if k >= len(self.seen):
                    return
                n |= (self.seen[k] & 127) << 7 * (k - 1)
                if self.seen[k] < 128:
                    break
            end = k + 1 + n
            if len(self.seen) < end:
                return
            self.said(self.seen[:end])
            self.seen = self.seen[end:]

    def said(self, packet):
        kind = packet[0] >> 4
        self.number.note(packet)
        mid = int.from_bytes(packet[2:4], "big")
        for m in self.open():
            if kind == PUBREL and m.mid == mid:
                demand(m.received or not m.sent or m.qos == 1, "PUBREL %d without PUBREC", mid)
                m.released = m.received
        if kind == PUBLISH:
            self.told(packet)

    def told(self, packet):
        wire = bytes([packet[0] & 0xF7]) + packet[1:]
        whose = [m for m in self.open() if m.wire == wire]
        demand(whose, "%r was complete, or never accepted", packet)
        m = whose[0]
        demand(not m.received, "PUBLISH after its PUBREC")
        demand(not m.tried or packet[0] & 8, "sent again without DUP")
        m.sent = m.tried = True

    def check(self):
        session = self.session
        demand(session._outbound.rows <= self.window, "%d rows", session._outbound.rows)
        demand(session._inbound._rows <= self.room, "%d ids", session._inbound._rows)
        demand(session._inbound._room == self.room <= 2 * self.inbound, "a table of %d ids", self.room)
        image = Image(self.shape, bytes(self.flash.data))
        there = {r.seq: r for r in image.records if r.kind == OUT}
        for m in self.open():
            record = there.get(m.seq)
            wire = record and bytes([record.body[0] & 0xF7]) + record.body[1:]  # DUP: it could leave at once
            demand(wire == m.wire, "message %d of QoS %d is lost", m.mid, m.qos)
            demand(m.received or record.state != RELEASED, "%d is released without PUBREC", m.mid)
        demand(len(there) == session.pending, "%d in the journal, %d pending", len(there), session.pending)


def _varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7])


def step(world, op, reader):
    if op < 0x80:
        world.feed(reader.bytes(op))
    elif op < 0xA0:
        if world.session.connected or world.dead:
            world.publish(1 + (op & 1), (op & 30) * 8)
    elif op < 0xB0:
        world.connect(op & 3)
    elif op < 0xB8:
        if world.session.connected and not world.session.asking:
            world.session.subscribe([b"a/#", b"b"][: 1 + (op & 1)], bytes([op & 2, 1]) if op & 4 else None)
            world.flush()
    elif op < 0xC0:
        world.now += 20_000 << (op & 3)
        world.flush()
    elif op < 0xC8:
        world.journal.tidy()
    elif op < 0xD0:
        world.start()
    elif op < 0xE0 and not world.dead:
        answer(world, op & 3, op >> 2 & 3)


def answer(world, which, kind):
    """What an honest broker would say about a message that is open."""
    for m in world.open()[which : which + 1]:
        kind = (PUBREC if kind & 1 else PUBCOMP) if m.qos == 2 else PUBACK
        world.feed(bytes([kind << 4, 2, m.mid >> 8, m.mid & 255]))


def run(data):
    reader = Reader(data)
    first = reader.byte()
    world = World(3 + (first & 1), 1 << (first >> 1 & 3), (1, 2, 5, 20)[first >> 3 & 3], first >> 5)
    steps = 0
    while reader.left and steps < 64:
        step(world, reader.byte(), reader)
        steps += 1
    world.check()
    erased = sum(world.flash.erases)
    demand(erased <= len(data) + 64, "%d sectors erased", erased)
    world.start()
    world.check()
    world.number.note(erased, world.journal.used, crc32(world.flash.data))
    return world.number.number
