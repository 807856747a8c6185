"""The decoder of level 5: input of a server gives the same events and properties however it is split, or ProtocolError.

data: a byte (bits 1-2: size of the buffer; the rest: how the input is split), then the server's bytes."""

from decoder_target import BUFFERS, Events, always, decode, pieces
from inflight.level5.cursor import IN_ACK, IN_AUTH, IN_CONNACK, IN_DISCONNECT, IN_PUBLISH
from inflight.level5.mqtt5 import Session5
from inflight.packet import CONNACK, DISCONNECT, PINGRESP, PUBLISH
from outcome import STRICT, Outcome, demand

if STRICT:
    from wire_reference import judge

_PLACES = {CONNACK: IN_CONNACK, DISCONNECT: IN_DISCONNECT, 15: IN_AUTH}


def _properties(d, where):
    """[id, its bytes in the packet, ...] without lengths of texts and binary data."""
    cursor = d.properties(where)
    found = []
    kind = cursor.next()
    while kind:
        found += [kind, bytes(d.buf[cursor.at : cursor.at + cursor.n])]
        kind = cursor.next()
    return found


class _Events5(Events):
    """Events of level 5: those of PUBLISH have their properties behind them, None: its topic was not kept; the others
    are [kind, flags, Message ID, reason code, body, properties], None: there are none."""

    def add(self, d, kind):
        if kind == PUBLISH:
            first = not d.offset
            super().add(d, kind)
            event = self.list[-1]
            found = None if event[3] is None else _properties(d, IN_PUBLISH)
            if first:
                event.append(found)
            demand(event[6] == found, "properties %r of a piece, %r of the first one", found, event[6])
            return
        mid = d.mid if CONNACK < kind < PINGRESP else 0
        body = bytes(d.buf[d.at : d.at + d.n]) if kind in (CONNACK, 9, 11) else b""
        found = _properties(d, _PLACES.get(kind, IN_ACK)) if d.block else None
        self.list.append([kind, d.flags, mid, d.reason_code, body[:1] if kind == CONNACK else body, found])
        self.over = kind == DISCONNECT


def run(data):
    first = data[0] if data else 0
    stream = data[1:]
    size = BUFFERS[first >> 1 & 3]

    def decoded(lengths):
        return decode(Session5(None, bytearray(2 * size), b"client", 5), _Events5(), stream, lengths)

    whole = decoded(always(size))
    again = decoded(pieces(first) if first & 8 else always(1))
    demand(again == whole, "split in another way: %r, %r", again, whole)
    if STRICT:
        judge(stream, 5, size, *whole)
    outcome = Outcome()
    for event in whole[0]:
        outcome.note(*event[:-1])
        outcome.note(*(event[-1] or (None,)))
    outcome.note(whole[1])
    return outcome.number
