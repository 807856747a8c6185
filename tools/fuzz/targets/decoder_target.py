"""The packet decoder: input of a server gives the same events however it is split, or ProtocolError.

data: a byte (bit 0: level 3 or 4; bits 1-2: size of the buffer; the rest: how the input is split), then the server's
bytes."""

from inflight.packet import CONNACK, PINGRESP, PUBLISH, ProtocolError
from inflight.session.packet_buffer import PacketBuffer
from outcome import STRICT, Finding, Outcome, demand

if STRICT:
    from wire_reference import judge

BUFFERS = (64, 100, 256, 512)


def pieces(seed):
    # Lengths of reads, 1 to 16, determined by the seed.
    while True:
        seed = (seed * 75 + 74) % 65537
        yield 1 + seed % 16


def always(n):
    while True:
        yield n


class Events:
    """The decoder's events: [kind, flags, Message ID, topic, size, payload or body]."""

    over = False  # nothing behind the last one counts

    def __init__(self):
        self.list = []

    def add(self, d, kind):
        if kind != PUBLISH:
            named = kind not in (CONNACK, PINGRESP)
            self.list.append([kind, d.flags, d.mid if named else 0, b"", d.n, bytes(d.buf[d.at : d.at + d.n])])
            return
        topic = bytes(d.buf[d.topic : d.topic + d.topic_len]) if d.topic_len else None
        head = [kind, d.flags, d.mid if d.flags & 6 else 0, topic, d.size]
        if not d.offset:
            self.list.append(head + [b""])
        event = self.list[-1]
        if event[:5] != head or d.offset != len(event[5]) or d.offset + d.n + d.left != d.size:
            raise Finding("%r goes on with %r at %d, %d bytes, %d left" % (event, head, d.offset, d.n, d.left))
        event[5] += bytes(d.buf[d.at : d.at + d.n])


def decode(d, events, stream, lengths):
    """What the decoder d finds in `stream`, read in pieces of these lengths: (events, whether it ended with a
    ProtocolError)."""
    end = len(stream)
    at = turns = 0
    try:
        while at < end and not events.over:
            n = min(d.space, end - at, next(lengths))
            if n < 1 or n > len(d.into):
                raise Finding("room for %d bytes" % d.space)
            d.into[:n] = stream[at : at + n]
            d.got(n)
            at += n
            kind = d.next_packet()
            while kind:
                events.add(d, kind)
                turns += 1
                if turns > end:
                    raise Finding("more events than bytes")
                kind = 0 if events.over else d.next_packet()
        return events.list, False
    except ProtocolError:
        return events.list, True


def run(data):
    first = data[0] if data else 0
    stream = data[1:]
    level = 3 + (first & 1)
    size = BUFFERS[first >> 1 & 3]

    def decoded(lengths):
        d = PacketBuffer()
        d.use(bytearray(2 * size), None, level)
        return decode(d, Events(), stream, lengths)

    whole = decoded(always(size))
    again = decoded(pieces(first) if first & 8 else always(1))
    demand(again == whole, "split in another way: %r, %r", again, whole)
    if STRICT:
        judge(stream, level, size, *whole)
    outcome = Outcome()
    for event in whole[0]:
        outcome.note(*event)
    outcome.note(whole[1])
    return outcome.number
