"""The packets that a server may send, by the standard, implemented without the code under test."""

from outcome import demand
from tools.reference.wire import Violation, span

# Remaining length by type; None: any. Other types are never sent to a client.
_LENGTHS = {2: None, 3: None, 4: 2, 5: 2, 6: 2, 7: 2, 9: None, 11: 2, 13: 0}


class _Bad(Exception):
    pass


class _Open(Exception):
    """The packet is incomplete."""


def text_is_valid(data):
    """UTF-8 without characters that MQTT forbids, or that senders should avoid."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return all(_may_stand(ord(c)) for c in text)


def _may_stand(c):
    control = c < 0x20 or 0x7F <= c < 0xA0
    return not (control or 0xFDD0 <= c <= 0xFDEF or c & 0xFFFF in (0xFFFE, 0xFFFF))


def _may_come(data):
    # A receiver must refuse fewer characters.
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return not any(c in text for c in "\0+#")


def name_is_valid(data):
    return 0 < len(data) < 65536 and text_is_valid(data) and b"+" not in data and b"#" not in data


def _packet(data, level, size):
    # (event, its length in bytes) of the packet at the beginning of data.
    kind, flags = data[0] >> 4, data[0] & 15
    found = span(data)
    if not found:
        raise _Open
    at, end = found
    length = end - at
    if kind not in _LENGTHS or _LENGTHS[kind] not in (None, length):
        raise _Bad
    if kind != 3 and level == 4 and flags != (2 if kind == 6 else 0):
        raise _Bad
    if kind in (2, 9) and (length < (2 if kind == 2 else 3) or end > size):
        raise _Bad
    if len(data) < end:
        raise _Open
    body = data[at:end]
    if kind == 3:
        return _publish(flags, body, at, end, size, level), end
    mid = int.from_bytes(body[:2], "big") if length and kind != 2 else None
    if mid == 0:
        raise _Bad
    rest = body[2:] if mid else body
    return [kind, flags, mid or 0, b"", len(rest), rest], end


def _publish(flags, body, at, end, size, level):
    qos = flags >> 1 & 3
    if qos == 3 or (flags & 8 and not qos and level > 3) or len(body) < 2:
        raise _Bad
    n = int.from_bytes(body[:2], "big")
    head = 2 + n + (2 if qos else 0)
    if not n or head > len(body) or not _may_come(body[2 : 2 + n]):
        raise _Bad
    mid = int.from_bytes(body[2 + n : head], "big")
    if qos and not mid:
        raise _Bad
    # Too long for the buffer, with no space for a byte of the payload behind the topic, which is not kept then.
    kept = end <= size or at + head < size
    return [3, flags, mid, body[2 : 2 + n] if kept else None, len(body) - head, body[head:]]


def judge(stream, level, size, events, failed):
    """Requires that the decoder's events are correct."""
    compare(stream, lambda rest: _packet(rest, level, size), 0, events, failed)


def compare(stream, packet, last, events, failed):
    """The same by packet(stream), which returns the first event and its length. last: the type behind which nothing is
    read, 0: there is none."""
    at = 0
    wanted = []
    try:
        while at < len(stream) and not (wanted and wanted[-1][0] == last):
            event, n = packet(stream[at:])
            wanted.append(event)
            at += n
        demand(events == wanted and not failed, "%r (failed: %d), but it is %r", events, failed, wanted)
    except (_Bad, Violation):
        demand(events == wanted and failed, "%r (failed: %d), but it is %r and an error", events, failed, wanted)
    except _Open:
        # It may have delivered chunks of a long payload, and may raise before the end of an invalid packet.
        demand(events[: len(wanted)] == wanted, "%r, but it begins with %r", events, wanted)
        rest = events[len(wanted) :]
        demand(not rest or (len(rest) == 1 and rest[0][0] == 3 and len(rest[0][5]) < rest[0][4]), "%r too much", rest)
