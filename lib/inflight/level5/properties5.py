# Properties of MQTT 5 that a client sends, built and checked once, ahead of time: sending them copies bytes;
# and options of a subscription.

import struct

from ..arguments import encode, encode_name
from ..compat import const
from ..errors import refuse
from ..packet import LONGEST

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
            from .stored5 import Seconds

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


# --- properties of CONNECT ---
# What CONNECT says beside what each client says.

_MOST_IN_CONNECT = const(112)  # with those that each client sends it is 127: so their length is one byte


class ConnectProperties:
    """data: the properties, without what depends on the buffer; max_packet: bytes, 0: any; reasons: True if texts are
    asked for."""

    def __init__(self, data, max_packet, reasons):
        self.data = data
        self.max_packet = max_packet
        self.reasons = reasons


def connect_properties(max_packet=None, reasons=False, response_information=False, user=()):
    """Properties of CONNECT [MQTT5-3.1.2-11].

    max_packet            bytes of the longest packet that the broker may send, at least half the client's buffer. What
                          is longer it drops as if it had been delivered [MQTT5-3.1.2-25]; None: packets of any length
                          come, and those that no handler takes are counted
    reasons               True: acknowledgements may have a text beside their reason code, which PublishRefused shows;
                          max_packet is half the buffer then, since they have to fit it
    response_information  True: asks for what response topics begin with, client.session.response_information
    user                  ((name, value), ...), str, for the broker

    Returns what Client(connect_properties=) takes. Raises ValueError, also if all that takes more than 112 bytes."""
    from ..arguments import flag, number

    flag("reasons", reasons)
    flag("response_information", response_information)
    data = b""
    if max_packet is not None:
        number("max_packet", max_packet, 1, LONGEST, " bytes")
        if reasons:
            raise ValueError("with reasons max_packet is half the buffer")
        data += struct.pack(">BI", 0x27, max_packet)
    if response_information:
        data += b"\x19\x01"
    data += user_properties(user)
    if len(data) > _MOST_IN_CONNECT:
        raise ValueError("properties take %d bytes, at most %d" % (len(data), _MOST_IN_CONNECT))
    return ConnectProperties(data, max_packet or 0, reasons)


def attach_to_connect(session, given):
    """What connect_properties() made is in each CONNECT of this session. Raises ValueError."""
    half = len(session.buf)
    maximum = half if given.reasons else given.max_packet or session.maximum_in
    if maximum < half:
        raise ValueError("max_packet: %d bytes at least, half the buffer" % half)
    session.maximum_in = maximum
    limit = struct.pack(">BI", 0x27, half) if given.reasons else session.connect_properties
    session.connect_properties = limit + given.data


# --- options of a subscription ---
# To be combined with its QoS: client.subscribe("log/#", 1 | NO_LOCAL).

NO_LOCAL = 4  # what this client publishes does not come back [MQTT5-3.8.3-3]
RETAIN_AS_PUBLISHED = 8  # message.retain is what the publisher said; otherwise: it was there before the subscription
RETAIN_IF_NEW = 0x10  # retained messages come only if there was no such subscription before,
RETAIN_NEVER = 0x20  # or never
