# Properties of MQTT 5 that a client sends, built and checked once, ahead of time: sending them copies bytes.

import struct

from .compat import const
from .topic import encode, encode_name

_MOST = const(127)  # so the length of a block is one byte


class Properties:
    """A block of properties. block: its length, and the properties; the message expiry interval leads. expiry: that, in
    seconds, 0: none. will: some of it is for a will alone."""

    def __init__(self, data, expiry, will):
        self.block = bytes((len(data),)) + data
        self.expiry = expiry
        self.will = will


def properties(
    expiry=None, content_type=None, response_topic=None, correlation=None, text=False, user=(), will_delay=None
):
    """Properties of a message, or of a will.

    expiry          seconds until the message is of no use any more, 1 to 4,294,967,295
    content_type    what the payload is, like "application/senml+json"
    response_topic  where an answer is expected, a topic name
    correlation     bytes that the answer carries again
    text            True: the payload is UTF-8
    user            ((name, value), ...), in this order; a name may be there more than once
    will_delay      of a will: seconds that the broker waits before it publishes it

    Raises ValueError, also if all that takes more than 127 bytes."""
    data = b""
    if expiry is not None:
        data += b"\x02" + _four("expiry", expiry, 1)  # first: its place is known
    if text:
        data += b"\x01\x01"
    if content_type is not None:
        data += b"\x03" + _string(encode(content_type))
    if response_topic is not None:
        data += b"\x08" + _string(encode_name(response_topic))
    if correlation is not None:
        data += b"\x09" + _string(bytes(correlation))
    if will_delay is not None:
        data += b"\x18" + _four("will_delay", will_delay, 0)
    for name, value in user:
        data += b"\x26" + _string(encode(name)) + _string(encode(value))
    if len(data) > _MOST:
        raise ValueError("properties take %d bytes, at most %d" % (len(data), _MOST))
    return Properties(data, expiry or 0, will_delay is not None)


def _four(name, value, least):
    if not least <= value <= 0xFFFFFFFF:
        raise ValueError("%s is %d to 4294967295 seconds" % (name, least))
    return struct.pack(">I", value)


def _string(data):
    return struct.pack(">H", len(data)) + data
