# SUBSCRIBE and UNSUBSCRIBE, and their answers. Loaded for each of them.

import inflight.counters as counters

from .compat import copy
from .packet import SUBACK, UNSUBACK, ProtocolError, begin, check_size, put_string
from .topic import encode

_CODES = b"\x00\x01\x02\x80"
_CODES_5 = {
    SUBACK: b"\x00\x01\x02\x80\x83\x87\x8f\x91\x97\x9e\xa1\xa2",
    UNSUBACK: b"\x00\x11\x80\x83\x87\x8f\x91",
}


def add_handlers(client, filters, qos, handler, stream):
    """Returns the encoded filters and their QoS. Raises ValueError."""
    if isinstance(filters, (str, bytes)):
        filters = ((filters, qos),)
    qos_list = [q for _, q in filters]
    patterns = encode_filters(client, [f for f, _ in filters])
    for pattern, q in zip(patterns, qos_list):
        if q not in (0, 1, 2):
            _check_options(client.session.decoder.protocol_level, pattern, q)
    for pattern, q in zip(patterns, qos_list):
        remove_handler(client, pattern)
        match = matched_by(pattern)
        only = None if b"+" in match or b"#" in match else match.decode()
        client._handlers.append([pattern, q, handler, stream, False, only, match])
    return patterns, qos_list


def _check_options(protocol_level, pattern, q):
    # [MQTT5-3.8.3-4] [MQTT5-3.8.3-5]
    if protocol_level < 5 or not isinstance(q, int) or q & 3 == 3 or q & 0x30 == 0x30 or not 0 <= q < 0x40:
        raise ValueError("qos is 0, 1 or 2; at level 5 with options of a subscription")
    if q & 4 and pattern.startswith(b"$share/"):
        raise ValueError("NO_LOCAL is not for shared subscriptions")


def remove_handler(client, pattern):
    """Messages of this filter have no handler any more."""
    client._handlers = [h for h in client._handlers if h[0] != pattern]


def encode_filters(client, filters):
    """Returns filters as bytes. Raises ValueError, also if the buffer is too small for the request."""
    protocol_level = client.session.decoder.protocol_level
    patterns = [encode_filter(f, protocol_level) for f in filters]
    if not patterns:
        raise ValueError("one filter at least")
    check(client.session, patterns)
    return patterns


def check(session, filters):
    """Raises ValueError if the buffer, or the broker, is too small for a request of these filters.
    [MQTT5-3.2.2-15]"""
    out = session.out
    n = request_size(out.buf, filters, (), out.no_properties)
    n += 2 if n < 128 else 3 if n < 16384 else 4
    if n > getattr(out, "maximum", n):
        raise ValueError("request of %d bytes, the broker takes %d" % (n, out.maximum))


def granted(client, patterns, handlers):
    """Returns what the broker granted; a refused filter has no handler any more. handlers: among which those are that
    were added with the request; others of the same filter have come since."""
    codes = list(client.session.granted)
    for pattern, code in zip(patterns, codes):
        for h in handlers:
            if h[0] == pattern:
                h[4] = code < 0x80
                if not h[4]:
                    client._handlers = [other for other in client._handlers if other is not h]
    return codes


def request(session, filters, qos):
    """Session.subscribe()."""
    session.request_mid = session.outbound.last_mid = session.outbound.free_mid(0)
    if qos and any(q & 2 for q in qos):
        session.expect_qos_2()
    session.request = filters
    session.request_qos = qos
    session.request_due = True
    session.request_dup = 0


def write(session):
    """Puts the request into the send buffer. Returns its size."""
    session.out.clear()
    session.request_due = False
    session.progress_at = session.now
    out = session.out
    return request_packet(
        out.buf, session.request_mid, session.request, session.request_qos, session.request_dup, out.no_properties
    )


def suback(session, kind):
    """SUBACK or UNSUBACK arrived. Raises ProtocolError."""
    d = session.decoder
    if d.mid != session.request_mid:
        session.count[counters.UNKNOWN_ACKS] += 1  # of a request that was repeated, or given up
        return
    ok = (kind == SUBACK) == (session.request_qos is not None)
    if ok and (kind == SUBACK or d.protocol_level == 5):
        codes = _CODES if d.protocol_level < 5 else _CODES_5[kind]
        session.granted = bytes(d.buf[d.at : d.at + d.n])
        ok = d.n == len(session.request)
        for code in session.granted:
            ok = ok and code in codes
    if not ok:
        raise ProtocolError("type %d for Message ID %d" % (kind, d.mid))
    session.request = None
    session.request_mid = 0
    session.request_due = False


def request_size(buf, filters, qos, block=b""):
    """Returns the remaining length of the SUBSCRIBE, or UNSUBSCRIBE when qos is None, of filters
    (bytes). Raises ValueError if it does not fit buf."""
    remaining = 2 + len(block)
    for f in filters:
        remaining += len(f) + (2 if qos is None else 3)
    check_size(buf, remaining)
    return remaining


def request_packet(buf, mid, filters, qos, dup=0, block=b""):
    """Writes a SUBSCRIBE of filters with qos[i] each, or an UNSUBSCRIBE when qos is None;
    block: the properties of level 5. Returns its length. [MQTT-3.8, 3.10]"""
    remaining = request_size(buf, filters, qos, block)
    i = begin(buf, (0xA2 if qos is None else 0x82) | dup, remaining)
    buf[i] = mid >> 8
    buf[i + 1] = mid & 0xFF
    i = copy(buf, i + 2, block)
    for k, f in enumerate(filters):
        i = put_string(buf, i, f)
        if qos is not None:
            buf[i] = qos[k]
            i += 1
    return i


def encode_filter(text, protocol_level=4):
    """Returns a topic filter as bytes. Raises ValueError. [MQTT-4.7.1-2, 4.7.1-3, 4.7.3-1] [MQTT5-4.8.2-1, 4.8.2-2]"""
    data = encode(text, protocol_level)
    parts = data.split(b"/")
    for i, part in enumerate(parts):
        if len(part) > 1 and (b"+" in part or b"#" in part) or (part == b"#" and i + 1 < len(parts)):
            raise ValueError("+ takes a whole level of a filter, # the last")
    if not data:
        raise ValueError("topic filter is empty")
    if protocol_level == 5 and parts[0] == b"$share":
        if len(parts) < 3 or parts[1] in (b"", b"+") or parts[2:] == [b""]:
            raise ValueError("a shared filter is $share/NAME/FILTER")
    return data


def matched_by(pattern):
    """Returns the part of a filter (bytes) that topic names match: all, but for a shared subscription
    $share/GROUP/FILTER."""
    parts = pattern.split(b"/", 2)
    return parts[2] if len(parts) == 3 and parts[0] == b"$share" and parts[2] else pattern
