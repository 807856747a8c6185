# Properties of MQTT 5 that a client sends, built and checked once, ahead of time: sending them copies bytes.

import struct

from ..compat import const
from ..errors import refuse
from ..topic import encode, encode_name

_STAMP = const(4)  # bytes behind properties with an expiry, in the journal
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
    if text not in (False, True):
        refuse("text", text)
    if text:
        data += b"\x01\x01"
    if content_type is not None:
        data += b"\x03" + _string(encode(content_type, name="content_type"))
    if response_topic is not None:
        data += b"\x08" + _string(encode_name(response_topic, name="response_topic"))
    if correlation is not None:
        if not isinstance(correlation, (bytes, bytearray, memoryview)) or len(bytes(correlation)) > _MOST:
            refuse("correlation", correlation)
        data += b"\x09" + _string(bytes(correlation))
    if will_delay is not None:
        data += b"\x18" + _four("will_delay", will_delay, 0)
    data += user_properties(user)
    if len(data) > _MOST:
        raise ValueError("properties take %d bytes, at most %d" % (len(data), _MOST))
    return Properties(data, expiry or 0, will_delay is not None)


def user_properties(user):
    """The properties of ((name, value), ...), as bytes. Raises ValueError."""
    data = b""
    try:
        user = tuple(user)
    except TypeError:
        refuse("user properties", user)
    for pair in user:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            refuse("user properties", user)
        name, value = pair
        data += b"\x26" + _string(encode(name, name="name of user")) + _string(encode(value, name="value of user"))
    return data


def attach(session, properties, now):
    """Session5.attach(), if they are others than before, or expire."""
    if properties is not session._properties:
        if properties is not None and getattr(properties, "will", True):
            refuse("properties", properties)
        session.forget()
        session._properties = session  # no properties are: until all of this is done, should memory be short
        session.out_block = properties.block if properties else session.no_properties
        session._trailer = session.out_block[1:]
        if properties and properties.expiry:
            session._trailer = bytearray(session._trailer + bytes(_STAMP))
        session._properties = properties
    session._accepted = -1  # what was there has other properties, or another time
    if properties and properties.expiry:
        session.forget()  # what is left of the expiry was written into it
        if not session.clock:
            from .expiry5 import Seconds

            session.clock = Seconds(0)
        clock = session.clock
        struct.pack_into(">I", session._trailer, len(session._trailer) - _STAMP, clock.tick(now))
        clock.due = min(clock.due, clock.value + properties.expiry)


def _four(name, value, least):
    if value.__class__ is not int or not least <= value <= 0xFFFFFFFF:
        refuse(name, value)
    return struct.pack(">I", value)


def _string(data):
    return struct.pack(">H", len(data)) + data
