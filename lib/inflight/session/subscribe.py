# Topic filters of the caller, SUBSCRIBE and UNSUBSCRIBE, and their answers.

from ..arguments import encode
from ..compat import copy
from ..packet import begin, check_size, put_string


def _refuse(name, allowed, value):
    # Raises ValueError.
    from ..arguments import refuse

    refuse(name, allowed, value)


def make_handlers(filters, qos, handler, stream, protocol_level):
    """Returns the rows, as states describes them, of the filters that subscribe() gets. Raises ValueError."""
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
        handlers.append([pattern, q, handler, stream, False, only, match, 0, 0])
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
