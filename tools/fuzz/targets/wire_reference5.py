"""The packets that a server of level 5 may send to a client that allows no topic alias, by the standard, implemented
without the code under test."""

from tools.reference.kinds import AUTH, CONNACK, DISCONNECT, PINGRESP, PUBLISH, PUBREL, SUBACK, UNSUBACK
from tools.reference.properties import FORMS
from tools.reference.wire import span
from wire_reference import _Bad, _may_come, _Open, compare

_ACK = b"\x1f\x26"
# By type: properties that may stand there, and the least remaining length. [MQTT5-2.2.2-1]
_KINDS = {
    CONNACK: (b"\x11\x12\x13\x15\x16\x1a\x1c\x1f\x21\x22\x24\x25\x26\x27\x28\x29\x2a", 2),
    PUBLISH: (b"\x01\x02\x03\x08\x09\x0b\x26", 3),
    4: (_ACK, 2),
    5: (_ACK, 2),
    PUBREL: (_ACK, 2),
    7: (_ACK, 2),
    SUBACK: (_ACK, 4),
    UNSUBACK: (_ACK, 4),
    PINGRESP: (b"", 0),
    DISCONNECT: (b"\x1c\x1f\x26", 0),
    AUTH: (b"\x15\x16\x1f\x26", 0),
}
_REPEATED = b"\x0b\x26"
_SIZES = {"byte": 1, "two": 2, "four": 4}


def _require(holds):
    if not holds:
        raise _Bad


def _variable(data, at):
    """(value, index behind) of a variable byte integer."""
    value = shift = 0
    while True:
        _require(at < len(data) and shift < 28)
        digit = data[at]
        at += 1
        value |= (digit & 127) << shift
        shift += 7
        if digit < 128:
            break
    _require(digit or shift == 7)
    return value, at


def _text(data, at):
    """(bytes, index behind) of a text."""
    found, end = _binary(data, at)
    try:
        _require("\0" not in found.decode("utf-8"))
    except UnicodeDecodeError:
        raise _Bad from None
    return found, end


def _binary(data, at):
    _require(at + 2 <= len(data))
    end = at + 2 + int.from_bytes(data[at : at + 2], "big")
    _require(end <= len(data))
    return data[at + 2 : end], end


def _value(kind, data, at):
    form = FORMS[kind]
    if form in _SIZES:
        end = at + _SIZES[form]
        _require(end <= len(data))
        found = data[at:end]
        _require(form != "byte" or found[0] < 2)
        _require(kind not in (0x21, 0x27) or any(found))
    elif form == "var":
        value, end = _variable(data, at)
        _require(value)
        found = data[at:end]
    elif form == "pair":
        end = _text(data, _text(data, at)[1])[1]
        found = data[at:end]
    else:
        found, end = (_text if form == "text" else _binary)(data, at)
        _require(kind != 0x08 or (found and _may_come(found)))
    return found, end


def _properties(data, at, allowed):
    """([id, bytes, ...], index behind) of the block of properties at data[at]."""
    size, at = _variable(data, at)
    end = at + size
    _require(end <= len(data))
    block, found, at = data[:end], [], at
    while at < end:
        kind = block[at]
        _require(kind in allowed and (kind in _REPEATED or kind not in found[::2]))
        value, at = _value(kind, block, at + 1)
        found += [kind, value]
    return found, end


def _packet(data, size):
    # (event, its length in bytes) of the packet at the beginning of data.
    kind, flags = data[0] >> 4, data[0] & 15
    found = span(data)
    if not found:
        raise _Open
    at, end = found
    _require(data[at - 1] or at == 2)  # the shortest form
    allowed, least = _KINDS.get(kind, (b"", 1 << 30))
    if kind == PUBLISH:
        if len(data) < end:
            raise _Open
        return _publish(flags, data[:end], at, size), end
    _require(end - at >= least and (kind != PINGRESP or end == at))
    _require(flags == (2 if kind == PUBREL else 0))
    if len(data) < end:
        raise _Open
    body = data[at:end]
    if end > size:
        head = 2 if kind in (CONNACK, SUBACK, UNSUBACK) else 3 if kind < SUBACK else 1
        refused = body[head - 1] >= 0x80 and kind not in (SUBACK, UNSUBACK)
        kept, behind, used = _shortened(data[:end], at + head, allowed, size, refused)
        _require(behind is None and used + end - _block_end(data[:end], at + head) <= size)
        body = body[:head] + kept + data[_block_end(data[:end], at + head) : end]
    return _other(kind, flags, body, allowed), end


def _block_end(packet, at):
    value, i = _variable(packet, at)
    _require(i + value <= len(packet))
    return i + value


def _shortened(packet, at, allowed, size, refused):
    """What is kept of the properties at packet[at], if the packet is longer than a buffer of `size` bytes: (the block,
    None, where it would end there); (None, where the first one begins that does not fit, None)."""
    end = _block_end(packet, at)
    i = _variable(packet, at)[1]
    used, kept = i, b""
    while i < end:
        if used == size:
            return None, i, None
        kind = packet[i]
        _require(kind in allowed)
        texts, n = 0, 1
        form = FORMS[kind]
        if form == "pair":
            texts = 2
        elif form in _SIZES:
            n += _SIZES[form]
        elif form == "var":
            while n < size - used and i + n < len(packet) and packet[i + n] & 128:
                n += 1
            if n == size - used:
                return None, i, None
            n += 1
        else:
            if used + 3 > size:
                return None, i, None
            _require(i + 3 <= end)
            n = 3 + int.from_bytes(packet[i + 1 : i + 3], "big")
            if kind in b"\x1a\x1c\x1f" and (n > size // 4 or (kind != 0x1A and not refused)):
                texts, n = 1, 1
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
    return _length(len(kept)) + kept, None, used


def _length(n):
    return bytes((n,)) if n < 128 else bytes((n & 127 | 128,)) + _length(n >> 7)


def _other(kind, flags, body, allowed):
    mid = code = 0
    found, fixed, at = None, b"", 0
    if kind not in (CONNACK, PINGRESP, DISCONNECT, AUTH):
        mid = int.from_bytes(body[:2], "big")
        _require(mid)
        at = 2
    if kind in (SUBACK, UNSUBACK):
        found, at = _properties(body, at, allowed)
        fixed = body[at:]
        _require(fixed)
        return [kind, flags, mid, 0, fixed, found]
    if kind == CONNACK:
        fixed, at = body[:1], 1
    if at < len(body):
        code, at = body[at], at + 1
    try:
        if at < len(body):
            found, at = _properties(body, at, allowed)
        _require(at == len(body))
    except (_Bad, UnicodeError):
        if kind != CONNACK or code < 0x80:
            raise
        found = None  # a refusal, whatever is behind its code
    if 4 <= kind <= 7:
        _require(code in (0, 0x92) if kind > 5 else code in (0, 0x10) or code >= 0x80)
    return [kind, flags, mid, code, fixed, found]


def _publish(flags, packet, at, size):
    body = packet[at:]
    qos = flags >> 1 & 3
    _require(qos < 3 and not (flags & 8 and not qos) and len(body) >= 2)
    n = int.from_bytes(body[:2], "big")
    head = 2 + n + (2 if qos else 0)
    _require(n and head < len(body) and _may_come(body[2 : 2 + n]))
    mid = int.from_bytes(body[2 + n : head], "big")
    _require(mid or not qos)
    lost = head if len(packet) > size and at + head + 5 > size else None  # where what is not kept begins
    if len(packet) > size and lost is None:
        value = shift = 0  # the beginning of the block says how long it is, whatever it is worth
        digit, i = 128, head
        while digit & 128 and shift < 28:
            _require(i < len(body))
            digit = body[i]
            value |= (digit & 127) << shift
            shift, i = shift + 7, i + 1
        _require(i + value <= len(body))
        if at + i + value >= size:
            behind = _block_end(packet, at + head)
            kept, lost, used = _shortened(packet, at + head, _KINDS[PUBLISH][0], size, False)
            if lost is not None or used == size:
                lost = (behind if lost is None else lost) - at
            else:
                body = body[:head] + kept + packet[behind:]
    if lost is not None:
        return [PUBLISH, flags, mid, None, len(body) - lost, body[lost:], None]
    found, behind = _properties(body, head, _KINDS[PUBLISH][0])
    return [PUBLISH, flags, mid, body[2 : 2 + n], len(body) - behind, body[behind:], found]


def judge(stream, size, events, failed):
    """Requires that the decoder's events are correct."""
    compare(stream, lambda rest: _packet(rest, size), DISCONNECT, events, failed)
