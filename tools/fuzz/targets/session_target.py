"""A session with a journal against a broker that sends anything: the only error is ProtocolError, no accepted message
is lost, sent again when it was complete, or delivered twice; tables and flash stay within their bounds; afterwards it
mounts again.

data: a byte (level, window, inbound), then steps: below 0x80 so many bytes from the broker, others as step() tells."""

from binascii import crc32

from inflight.counters import ABANDONED
from inflight.journal.journal import Journal, OutboxFull
from inflight.packet import ProtocolError
from inflight.session.refused import MessageSetAside
from inflight.session.session import Session
from journal_reader import OUT, Image
from journal_reader import RELEASED as STATE_RELEASED
from outcome import Outcome, Reader, demand
from tools.reference.kinds import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL
from tools.reference.oracle import RELEASED, Outgoing
from tools.reference.server import Message
from tools.reference.wire import connack, packet, parse, publish, spans
from worn_flash import blank

_TX = 160
_LONGEST_REQUEST = 15  # bytes of the longest SUBSCRIBE below


class Simulation:
    session_class = Session
    most_inbound = 2  # times as many ids as may be in flight are kept, at most

    def __init__(self, level, window, inbound, shape):
        self.level, self.window, self.inbound = level, window, inbound
        self.flash, self.shape = blank(shape)
        self.now = 0
        self.out = Outgoing()
        self.wires = {}  # number: (sequence number, PUBLISH) of accepted messages
        self.handed = set()  # ids of QoS 2 messages delivered and not released
        self.number = Outcome()
        self.session = None
        self.start()

    def start(self):
        """Restarts after a power cut: only the flash is kept."""
        if self.session:
            self.learn()
        self.flash.reads = 0
        self.journal = Journal(self.flash)
        buffer = bytearray(2 * _TX)
        self.out.power_cut()
        self.out.read_anew()
        self.topic = b"t"
        self.session = self.session_class(
            self.journal, buffer, b"dev", self.level, self.window, self.inbound, 60_000, 20_000
        )
        self.session.name = self.topic  # to use the short path for a repeated topic
        self.dead = True
        self.seen = b""

    # --- what the client does ---

    def publish(self, qos, n):
        text = bytes([65 + len(self.out.messages) % 26]) * n
        seq = self.journal.next_seq
        number = self.out.begin(Message("t", text, qos, False))
        try:
            mid = self.session.publish(self.topic, text, qos, False)
        except OutboxFull:
            self.out.refuse(number)
            return
        except ValueError:
            self.too_long(len(publish("t", text, qos, 1)) + (self.level > 4))
            self.out.refuse(number)
            return
        self.out.accept(number, mid, seq)
        self.wires[number] = seq, publish("t", text, qos, mid)
        self.flush()

    def too_long(self, size):
        """The caller was told that the broker takes no packet of so many bytes."""
        demand(size > self.session.maximum_out, "a packet of %d bytes is too long", size)

    def connect(self, present):
        if not self.dead:
            self.session.connection_lost()
        self.session.connect(self.now, False, 60, None, None, None)
        self.dead = False
        self.seen = b""
        self.out.disconnected()
        self.out.connected(repeats=True)
        self.flush()
        if present < 2:
            self.feed(self.connack(present))

    def connack(self, present):
        """The answer of a correct broker."""
        return connack(present)

    def flush(self):
        session = self.session
        turns = 0
        while n := session.data_to_send(self.now):
            self.seen += bytes(session.view[session.out_at : session.out_at + n])
            turns += 1
            demand(turns < 200, "it never stops sending")
        self.listen()

    def feed(self, data):
        """The broker's bytes; the client reads no more of them after a protocol error."""
        at = 0
        d = self.session
        while at < len(data) and not self.dead:
            n = min(d.space, len(data) - at)
            demand(n > 0, "no space to read into")
            d.into[:n] = data[at : at + n]
            self.session.bytes_received(n, self.now)
            at += n
            self.receive()

    def receive(self):
        session = self.session
        try:
            while (kind := session.next_event(self.now)) and not self.dead:
                self.received(kind)
                if kind == PUBLISH:
                    session.delivered()
                self.flush()
                if session.code:
                    self.lost()
                    return
                if kind == CONNACK:
                    self.resume_session()
        except (ProtocolError, OSError) as error:  # OSError: more QoS 2 messages in flight than receive_maximum
            self.number.note(99)
            self.ended(error)
            self.lost()

    def ended(self, error):
        """The connection ends with this error."""

    def resume_session(self):
        if self.level == 4 and not self.session.present:
            self.handed.clear()
            self.out.session_lost()
        self.session.resume()
        self.flush()

    def lost(self):
        self.session.connection_lost()
        self.dead = True

    # --- checks ---

    def received(self, kind):
        d = self.session
        self.number.note(kind, d.mid if kind in (PUBACK, PUBREC, PUBREL, PUBCOMP) else 0)
        if kind == PUBREL:
            self.handed.discard(d.mid)
        elif kind == PUBLISH:
            self.published(d)
        if PUBACK <= kind <= PUBCOMP:
            self.out.packet_read(kind, d.mid)
            self.out.handled()

    def learn(self):
        """The application is told of messages that are set aside: others overtake them."""
        for error in self.session.notices:
            if isinstance(error, MessageSetAside):
                self.out.set_aside(error.mid)
        self.session.notices = ()

    def published(self, d):
        if not d.flags & 4 or not self.session.deliver or d.offset:
            return
        again = d.mid in self.handed
        demand(not again or self.session.redelivered, "message %d was delivered twice", d.mid)
        self.handed.add(d.mid)
        if d.count[ABANDONED]:  # one that made space for this one is no longer known
            self.handed &= set(d.mids[d.limit : d.limit + d.rows_in])

    def listen(self):
        """Checks the packets that the client has sent completely."""
        end = 0
        for start, _, end in spans(self.seen):
            self.sent(self.seen[start:end])
        self.seen = self.seen[end:]

    def sent(self, raw):
        self.learn()
        self.number.note(raw)
        p = parse(raw, self.level)
        if p.kind == PUBREL:
            self.out.pubrel_written(p.mid)
        elif p.kind == PUBLISH:
            e = self.out.owner(p.mid)
            demand(e, "%r was complete, or never accepted", p)
            self.out.publish_written(e.number, p)

    def check(self):
        self.learn()
        session = self.session
        demand(session.rows <= self.window, "%d rows", session.rows)
        rows = len(session.mids) - self.window
        demand(session.rows_in <= rows <= self.most_inbound * self.inbound, "%d ids", session.rows_in)
        image = Image(self.shape, bytes(self.flash.data))
        there = {r.seq: r for r in image.records if r.kind == OUT}
        for e in self.out.open.values():
            seq, wire = self.wires[e.number]
            record = there.get(seq)
            body = record and bytes([record.body[0] & 0xF7]) + record.body[1:]  # without DUP, which the journal may set
            demand(body == wire, "message %d of QoS %d is lost", e.mid, e.qos)
            demand(e.phase == RELEASED or record.state != STATE_RELEASED, "%d is released without PUBREC", e.mid)
        pending = session.rows + session.queued + len([mid for mid in self.out.aside if mid in self.out.open])
        demand(len(there) == session.pending, "%d in the journal, %d pending", len(there), session.pending)
        demand(len(there) <= pending, "%d in the journal, %d have a row or wait", len(there), pending)


def step(simulation, op, reader):
    if op < 0x80:
        simulation.feed(reader.bytes(op))
    elif op < 0xA0:
        if simulation.session.connected or simulation.dead:
            simulation.publish(1 + (op & 1), (op & 30) * 8)
    elif op < 0xB0:
        simulation.connect(op & 3)
    elif op < 0xB8:
        if simulation.session.connected and simulation.session.request is None:
            try:
                simulation.session.subscribe([b"a/#", b"b"][: 1 + (op & 1)], bytes([op & 2, 1]) if op & 4 else None)
            except ValueError:
                simulation.too_long(_LONGEST_REQUEST)
            simulation.flush()
    elif op < 0xC0:
        simulation.now += 20_000 << (op & 3)
        simulation.flush()
    elif op < 0xC8:
        simulation.journal.collect()
    elif op < 0xD0:
        simulation.start()
    elif op < 0xE0 and not simulation.dead:
        answer(simulation, op & 3, op >> 2 & 3)


def answer(simulation, which, kind):
    """A correct broker's answer to an open message."""
    for e in sorted(simulation.out.open.values())[which : which + 1]:
        kind = (PUBREC if kind & 1 else PUBCOMP) if e.qos == 2 else PUBACK
        simulation.feed(packet(kind << 4, e.mid.to_bytes(2, "big")))


def run(data):
    reader = Reader(data)
    first = reader.byte()
    return play(Simulation(3 + (first & 1), *settings(first)), reader)


def settings(first):
    """Window, inbound and shape of the flash."""
    return 1 << (first >> 1 & 3), (1, 2, 5, 20)[first >> 3 & 3], first >> 5


def play(simulation, reader):
    """The number of the outcome."""
    steps = 0
    while reader.left and steps < 64:
        step(simulation, reader.byte(), reader)
        steps += 1
    simulation.check()
    erased = sum(simulation.flash.erases)
    demand(erased <= reader.size + 64, "%d sectors erased", erased)
    simulation.start()
    simulation.check()
    simulation.number.note(erased, simulation.journal.used, crc32(simulation.flash.data))
    return simulation.number.number
