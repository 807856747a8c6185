# Topic filters of the caller, SUBSCRIBE and UNSUBSCRIBE, and their answers.

from binascii import crc32
from errno import EACCES

from ..arguments import encode
from ..compat import const, copy
from ..packet import begin, check_size, put_string

_FIRST = const(16384)  # Subscription Identifiers take three bytes, so that requests have one length
_NUMBERS = const(2080768)


def _refuse(name, allowed, value):
    # Raises ValueError.
    from ..arguments import refuse

    refuse(name, allowed, value)


def make_handlers(filters, qos, handler, stream, protocol_level):
    """Returns the handlers, as _set_up() describes them, of the filters that subscribe() gets. Raises ValueError."""
    if handler is not None and not callable(handler):
        _refuse("handler", "a function or None", handler)
    if stream not in (False, True):
        _refuse("stream", "True or False", stream)
    filters = _pairs(filters, qos)
    handlers = []
    for pattern, (_, q) in zip(encode_all([f for f, _ in filters], protocol_level), filters):
        _check_qos(protocol_level, pattern, q)
        match = _matched_by(pattern)
        only = None if b"+" in match or b"#" in match else match.decode()
        handlers.append([pattern, q, handler, stream, False, only, match, 0, False])
    return handlers


def _pairs(filters, qos):
    if isinstance(filters, (str, bytes)):
        return ((filters, qos),)
    if qos.__class__ is not int or qos:
        raise ValueError("of several filters each has its QoS: subscribe([(filter, qos), ...], handler=handler)")
    try:
        filters = list(filters)  # also of an iterator
    except TypeError:
        _refuse("filters", "one filter, or [(filter, qos), ...]", filters)
    for pair in filters:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            _refuse("each of several filters", "(filter, qos)", pair)
    return filters


def encode_all(filters, protocol_level):
    """Returns filters as bytes. Raises ValueError."""
    if not filters:
        raise ValueError("filters: give at least one")
    return [encode_filter(f, protocol_level) for f in filters]


def encode_filter(text, protocol_level=4):
    """Returns a topic filter as bytes. Raises ValueError. [MQTT-4.7.1-2, 4.7.1-3, 4.7.3-1] [MQTT5-4.8.2-1, 4.8.2-2]"""
    data = encode(text, protocol_level, "filter")
    parts = data.split(b"/")
    for i, part in enumerate(parts):
        if len(part) > 1 and (b"+" in part or b"#" in part) or (part == b"#" and i + 1 < len(parts)):
            _refuse("filter", "one in which + takes a whole level, and # the last", text)
    if not data:
        _refuse("filter", "at least one character", text)
    if protocol_level == 5 and parts[0] == b"$share":
        if len(parts) < 3 or parts[1] in (b"", b"+") or parts[2:] == [b""]:
            _refuse("shared filter", "$share/NAME/FILTER", text)
    return data


def _matched_by(pattern):
    # The part of a filter (bytes) that topic names match: all, but for a shared subscription $share/GROUP/FILTER.
    parts = pattern.split(b"/", 2)
    return parts[2] if len(parts) == 3 and parts[0] == b"$share" and parts[2] else pattern


def _check_qos(protocol_level, pattern, q):
    # [MQTT5-3.8.3-4] [MQTT5-3.8.3-5]
    if callable(q):
        _refuse("qos", "0, 1 or 2: give the handler as handler=", q)
    most = 2 if protocol_level < 5 else 0x3F
    if q.__class__ is not int or not 0 <= q <= most or q & 3 == 3 or q & 0x30 == 0x30:
        _refuse("qos", "0, 1 or 2, at level 5 with options of a subscription", q)
    if q & 4 and pattern.startswith(b"$share/"):
        raise ValueError("NO_LOCAL is not for shared subscriptions")


def add_handlers(client, filters, qos, handler, stream):
    """Adds the handlers of what subscribe() gets, in place of those that the same filters have. Returns the encoded
    filters and their QoS. Raises ValueError, also if the buffer is too small for the request."""
    handlers = make_handlers(filters, qos, handler, stream, client.session.protocol_level)
    patterns = [h[0] for h in handlers]
    client.session.check_request(patterns, _FIRST)
    if not client._message:
        client._load_dispatching()
    found = [h for h in client._handlers if h[0] not in patterns]
    # The identifier follows from the filter: the broker may have this subscription of an earlier life, with messages
    # that wait.
    taken = [h[7] for h in found]
    for k, h in enumerate(handlers):
        number = crc32(h[0]) % _NUMBERS
        while _FIRST + number in taken:
            number = (number + 1) % _NUMBERS
        h[7] = _FIRST + number
        if h[0] not in patterns[k + 1 :]:
            found.append(h)
            taken.append(h[7])
    if client.connected:
        client.known = 0  # what the session has is about to change
    client._handlers = found  # at once: a filter that the broker has is never without a handler
    return patterns, [h[1] for h in handlers]


def requests(client, patterns, qos):
    """Yields the filters, their QoS and the Subscription Identifier of each SUBSCRIBE that asks for these: with
    identifiers one for each filter, so that copies of one message are told apart."""
    if not getattr(client.session, "identifiers", False):
        yield patterns, qos, 0
        return
    for pattern, q in zip(patterns, qos):
        for h in client._handlers:
            if h[0] == pattern:
                yield [pattern], [q], h[7]


def encode_filters(client, filters):
    """Returns filters, or those of the list that is the only one, as bytes, for UNSUBSCRIBE. Raises ValueError, also if
    the buffer is too small for the request."""
    if len(filters) == 1 and isinstance(filters[0], (list, tuple)):
        filters = filters[0]
    patterns = encode_all(filters, client.session.protocol_level)
    client.session.check_request(patterns)
    return patterns


def remove_handler(client, pattern):
    """Messages of this filter have no handler any more."""
    if client.connected:
        client.known = 0  # what the session has is about to change
    client._handlers = [h for h in client._handlers if h[0] != pattern]


def granted(client, patterns, handlers):
    """Returns what the broker granted. A filter that it refused keeps its handler, is told, and asked for again at the
    next connection. handlers: among which those are that were added with the request; others of the same filter have
    come since."""
    codes = list(client.session.granted)
    for pattern, code in zip(patterns, codes):
        for h in handlers:
            if h[0] == pattern:
                h[4] = code < 0x80
        if code >= 0x80:
            error = OSError(EACCES, "subscription refused: %s, code %d" % (str(pattern, "utf-8"), code))
            client._report(client.on_error, error)
    return codes


def number(client):
    """What `known` of the client is when the broker has granted all filters; it is not 0."""
    session = client.session
    found = crc32(("%s %d %d" % (client._host, client._port, session.protocol_level)).encode() + session.client_id)
    for h in client._handlers:
        found = crc32(h[0] + bytes((h[1], h[7] & 0xFF, h[7] >> 8 & 0xFF, h[7] >> 16)), found)
    return found or 1


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
