"""The packet decoder: input of a server gives the same events however it is split, or ProtocolError.

data: a byte (bit 0: level 3 or 4, see decoder5_target for 5; bits 1-2: size of the buffer; the rest: how the input is
split), then the server's bytes."""

from inflight.level5.cursor import IN_ACK, IN_AUTH, IN_CONNACK, IN_DISCONNECT, IN_PUBLISH
from inflight.level5.mqtt5 import Session5
from inflight.packet import CONNACK, DISCONNECT, PINGRESP, PUBLISH, ProtocolError
from inflight.session.packet_buffer import PacketBuffer
from outcome import STRICT, Finding, Outcome, demand

if STRICT:
    from wire_reference import judge

_PLACES = {CONNACK: IN_CONNACK, PUBLISH: IN_PUBLISH, DISCONNECT: IN_DISCONNECT, 15: IN_AUTH}
BUFFERS = (64, 100, 256, 512)


def pieces(seed):
    # Lengths of reads, 1 to 16, determined by the seed.
    while True:
        seed = (seed * 75 + 74) % 65537
        yield 1 + seed % 16


def always(n):
    while True:
        yield n


def _properties(d, kind):
    """[id, its bytes in the packet, ...] without lengths of texts and binary data."""
    cursor = d.properties(_PLACES.get(kind, IN_ACK))
    found = []
    while kind := cursor.next():
        found += [kind, bytes(d.buf[cursor.at : cursor.at + cursor.n])]
    return found


class Events:
    """The decoder's events, as wire_reference tells them."""

    over = False  # nothing behind the last one counts

    def __init__(self, level):
        self.list = []
        self._level = level

    def add(self, d, kind):
        if kind == PUBLISH:
            self._add_publish(d)
            return
        mid = d.mid if CONNACK < kind < PINGRESP else 0
        body = bytes(d.buf[d.at : d.at + d.n])
        if self._level < 5:
            self.list.append([kind, d.flags, mid, b"", d.n, body])
            return
        body = body[:1] if kind == CONNACK else body if kind in (9, 11) else b""
        self.list.append([kind, d.flags, mid, d.reason_code, body, _properties(d, kind) if d.block else None])
        self.over = kind == DISCONNECT

    def _add_publish(self, d):
        topic = bytes(d.buf[d.topic : d.topic + d.topic_len]) if d.topic_len else None
        head = [PUBLISH, d.flags, d.mid if d.flags & 6 else 0, topic, d.size]
        more = [None if topic is None else _properties(d, PUBLISH)] if self._level == 5 else []
        if not d.offset:
            self.list.append(head + [b""] + more)
        event = self.list[-1]
        if event[:5] + event[6:] != head + more or d.offset != len(event[5]) or d.offset + d.n + d.left != d.size:
            raise Finding("%r goes on with %r at %d, %d bytes, %d left" % (event, head, d.offset, d.n, d.left))
        event[5] += bytes(d.buf[d.at : d.at + d.n])


def _decode(d, events, stream, lengths):
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
            while not events.over and (kind := d.next_packet()):
                events.add(d, kind)
                turns += 1
                if turns > end:
                    raise Finding("more events than bytes")
        return events.list, False
    except ProtocolError:
        return events.list, True


def run_at(level, data):
    first = data[0] if data else 0
    stream = data[1:]
    size = BUFFERS[first >> 1 & 3]

    def decoded(lengths):
        d = Session5(None, bytearray(2 * size), b"client", 5) if level == 5 else PacketBuffer()
        if level < 5:
            d.use(bytearray(2 * size), None, level)
        return _decode(d, Events(level), stream, lengths)

    whole = decoded(always(size))
    again = decoded(pieces(first) if first & 8 else always(1))
    demand(again == whole, "split in another way: %r, %r", again, whole)
    if STRICT:
        judge(stream, level, size, *whole)
    outcome = Outcome()
    for event in whole[0]:
        outcome.note(*event[: 5 + (event[0] == PUBLISH or level < 5)])
        if level == 5:
            outcome.note(*(event[-1] or (None,)))
    outcome.note(whole[1])
    return outcome.number


def run(data):
    return run_at(3 + (data[0] & 1 if data else 0), data)
