# Topic filters of the caller. Loaded for each subscription, before what sends it: together they would need more heap.

from .arguments import flag, function, refuse
from .topic import encode


def make_handlers(filters, qos, handler, stream, protocol_level):
    """Returns the handlers, as client_start describes them, of the filters that subscribe() gets. Raises ValueError."""
    function("handler", handler)
    flag("stream", stream)
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
        refuse("filters", "one filter, or [(filter, qos), ...]", filters)
    for pair in filters:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            refuse("each of several filters", "(filter, qos)", pair)
    return filters


def encode_all(filters, protocol_level):
    """Returns filters as bytes. Raises ValueError."""
    if not filters:
        raise ValueError("one filter at least")
    return [encode_filter(f, protocol_level) for f in filters]


def encode_filter(text, protocol_level=4):
    """Returns a topic filter as bytes. Raises ValueError. [MQTT-4.7.1-2, 4.7.1-3, 4.7.3-1] [MQTT5-4.8.2-1, 4.8.2-2]"""
    data = encode(text, protocol_level, "filter")
    parts = data.split(b"/")
    for i, part in enumerate(parts):
        if len(part) > 1 and (b"+" in part or b"#" in part) or (part == b"#" and i + 1 < len(parts)):
            refuse("filter", "one in which + takes a whole level, and # the last", text)
    if not data:
        refuse("filter", "at least one character", text)
    if protocol_level == 5 and parts[0] == b"$share":
        if len(parts) < 3 or parts[1] in (b"", b"+") or parts[2:] == [b""]:
            refuse("shared filter", "$share/NAME/FILTER", text)
    return data


def _matched_by(pattern):
    # The part of a filter (bytes) that topic names match: all, but for a shared subscription $share/GROUP/FILTER.
    parts = pattern.split(b"/", 2)
    return parts[2] if len(parts) == 3 and parts[0] == b"$share" and parts[2] else pattern


def _check_qos(protocol_level, pattern, q):
    # [MQTT5-3.8.3-4] [MQTT5-3.8.3-5]
    if callable(q):
        refuse("qos", "0, 1 or 2: give the handler as handler=", q)
    most = 2 if protocol_level < 5 else 0x3F
    if q.__class__ is not int or not 0 <= q <= most or q & 3 == 3 or q & 0x30 == 0x30:
        refuse("qos", "0, 1 or 2, at level 5 with options of a subscription", q)
    if q & 4 and pattern.startswith(b"$share/"):
        raise ValueError("NO_LOCAL is not for shared subscriptions")
