"""The packets that a server may send, by the standard, and what of them a client keeps whose buffer has `size` bytes,
and that allows no topic alias: implemented without the code under test."""

from outcome import demand
from tools.reference.kinds import AUTH, CONNACK, DISCONNECT, PINGRESP, PUBCOMP, PUBLISH, PUBREL, SUBACK, UNSUBACK
from tools.reference.properties import ACK, FORMS, OF_SERVER, encoded, variable
from tools.reference.wire import Fields, Violation, span

_ANY = 1 << 28
# Remaining length by type, least and most; other types are never sent to a client.
_LENGTHS = {CONNACK: (2, _ANY), PUBLISH: (0, _ANY), SUBACK: (3, _ANY), UNSUBACK: (2, 2), PINGRESP: (0, 0)}
_LENGTHS_5 = {CONNACK: (2, _ANY), PUBLISH: (0, _ANY), SUBACK: (4, _ANY), UNSUBACK: (4, _ANY), PINGRESP: (0, 0)}
_LENGTHS_5 |= {DISCONNECT: (0, _ANY), AUTH: (0, _ANY)}
for _kind in range(4, PUBCOMP + 1):
    _LENGTHS[_kind], _LENGTHS_5[_kind] = (2, 2), (2, _ANY)
_WITHOUT_MID = (CONNACK, PINGRESP, DISCONNECT, AUTH)


class _Open(Exception):
    """The packet is incomplete."""


def _require(holds):
    if not holds:
        raise Violation


# --- texts ---


def text_is_valid(data):
    """UTF-8 without characters that MQTT forbids, or that senders should avoid."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    for c in map(ord, text):
        if c < 0x20 or 0x7F <= c < 0xA0 or 0xFDD0 <= c <= 0xFDEF or c & 0xFFFF in (0xFFFE, 0xFFFF):
            return False
    return True


def name_is_valid(data):
    return 0 < len(data) < 65536 and text_is_valid(data) and b"+" not in data and b"#" not in data


def _may_come(data):
    # A receiver must refuse fewer characters.
    try:
        return not any(c in data.decode("utf-8") for c in "\0+#")
    except UnicodeDecodeError:
        return False


# --- packets ---


def _packet(data, level, size):
    """(event, its length in bytes) of the packet at the beginning of data. An event is [type, flags, Message ID], then
    of PUBLISH: topic, size, payload, at level 5 properties; of the others: b"", size, body, or at level 5 reason code,
    body, properties."""
    kind, flags = data[0] >> 4, data[0] & 15
    found = span(data)
    if not found:
        raise _Open
    at, end = found
    least, most = (_LENGTHS_5 if level > 4 else _LENGTHS).get(kind, (_ANY, 0))
    _require(least <= end - at <= most)
    _require(level < 5 or data[at - 1] or at == 2)  # the shortest form
    if kind != PUBLISH:
        _require(level == 3 or flags == (2 if kind == PUBREL else 0))
        _require(level > 4 or end <= size)
    if len(data) < end:
        raise _Open
    packet = data[:end]
    if kind == PUBLISH:
        return _publish(flags, packet, at, size, level), end
    body = packet[at:]
    if end > size:
        head = 2 if kind in (CONNACK, SUBACK, UNSUBACK) else 3 if kind < SUBACK else 1
        refused = body[head - 1] >= 0x80 and kind not in (SUBACK, UNSUBACK)
        kept, left, used = _shortened(packet, at + head, kind, size, refused)
        behind = _block_end(packet, at + head)
        _require(left is None and used + end - behind <= size)
        body = body[:head] + kept + packet[behind:]
    return _other(kind, flags, Fields(body), level), end


def _properties(f, kind):
    # [id, its bytes without lengths of texts and binary data, ...]
    found = []
    for number, value in f.properties(kind, OF_SERVER):
        found += [number, encoded(number, value)[2 if FORMS[number] in ("text", "data") else 0 :]]
    return found


def _other(kind, flags, f, level):
    mid = 0 if kind in _WITHOUT_MID else f.mid()
    if level < 5:
        return [kind, flags, mid, b"", len(f.body), f.body]
    if kind in (SUBACK, UNSUBACK):
        found, codes = _properties(f, kind), f.rest()
        _require(codes)
        return [kind, flags, mid, 0, codes, found]
    fixed = f.take(1) if kind == CONNACK else b""
    code = f.byte() if f.body else 0
    found = None
    try:
        found = _properties(f, kind) if f.body else None
        f.end()
    except Violation:
        if kind != CONNACK or code < 0x80:
            raise
        found = None  # a refusal, whatever is behind its code
    if kind <= PUBCOMP and kind != CONNACK:
        _require(code in (0, 0x92) if kind >= PUBREL else code in (0, 0x10) or code >= 0x80)
    return [kind, flags, mid, code, fixed, found]


def _publish(flags, packet, at, size, level):
    f = Fields(packet[at:])
    qos = flags >> 1 & 3
    _require(qos < 3 and not (flags & 8 and not qos and level > 3))
    topic = f.data()
    _require(topic and _may_come(topic))
    mid = f.mid() if qos else 0
    start = [PUBLISH, flags, mid]
    head = len(packet) - len(f.body)  # where properties or payload begin
    long = len(packet) > size
    if level < 5:
        # Too long for the buffer, with no space for a byte of the payload behind the topic, which is not kept then.
        return start + [None if long and head >= size else topic, len(f.body), f.body]
    _require(f.body)
    left = head if long and head + 5 > size else None  # where what is not kept begins
    if long and left is None and (end := _block_end(packet, head)) >= size:
        kept, left, used = _shortened(packet, head, PUBLISH, size, False)
        if left is None and used < size:
            f.body = kept + packet[end:]
        elif left is None:
            left = end
    if left is not None:
        return start + [None, len(packet) - left, packet[left:], None]
    found = _properties(f, PUBLISH)
    return start + [topic, len(f.body), f.body, found]


# --- properties of a packet that is longer than the buffer ---


def _block_end(packet, at):
    f = Fields(packet[at:])
    size = f.variable()
    _require(size <= len(f.body))
    return len(packet) - len(f.body) + size


def _shortened(packet, at, kind, size, refused):
    """What is kept of the properties at packet[at]: (the block, None, where it would end in the buffer); (None, where
    the first one begins that does not fit, None)."""
    end = _block_end(packet, at)
    f = Fields(packet[at:])
    f.variable()
    i = used = len(packet) - len(f.body)
    kept = b""
    while i < end:
        if used == size:
            return None, i, None
        number = packet[i]
        _require(number in OF_SERVER.get(kind, ACK))
        form = FORMS[number]
        texts, n = 0, 1  # that are passed over, and the bytes before them
        if form == "pair":
            texts = 2
        elif form == "var":
            while n < size - used and i + n < len(packet) and packet[i + n] & 128:
                n += 1
            if n == size - used:
                return None, i, None
            n += 1
        elif form in ("text", "data"):
            if used + 3 > size:
                return None, i, None
            _require(i + 3 <= end)
            n = 3 + int.from_bytes(packet[i + 1 : i + 3], "big")
            if number in b"\x1a\x1c\x1f" and (n > size // 4 or (number != 0x1A and not refused)):
                texts, n = 1, 1
        else:
            n += form
        if not texts:
            _require(i + n <= end)
            if used + n > size:
                return None, i, None
            kept += packet[i : i + n]
            used += n
        i += n
        for _ in range(texts):
            if used + 2 > size:
                return None, i, None
            _require(i + 2 <= end)
            n = int.from_bytes(packet[i : i + 2], "big")
            i += 2
            _require(i + n <= end)
            if n and used == size:
                return None, i, None
            i += n
    return variable(len(kept)) + kept, None, used


# --- the judge ---


def judge(stream, level, size, events, failed):
    """Requires that the decoder's events are correct."""
    at, wanted = 0, []
    try:
        while at < len(stream) and not (level > 4 and wanted and wanted[-1][0] == DISCONNECT):
            event, n = _packet(stream[at:], level, size)
            wanted.append(event)
            at += n
        demand(events == wanted and not failed, "%r (failed: %d), but it is %r", events, failed, wanted)
    except Violation:
        demand(events == wanted and failed, "%r (failed: %d), but it is %r and an error", events, failed, wanted)
    except _Open:
        # It may have delivered chunks of a long payload, and may raise before the end of an invalid packet.
        demand(events[: len(wanted)] == wanted, "%r, but it begins with %r", events, wanted)
        rest = events[len(wanted) :]
        demand(not rest or (len(rest) == 1 and rest[0][0] == 3 and len(rest[0][5]) < rest[0][4]), "%r too much", rest)
