# What CONNECT of MQTT 5 says beside what each client says, built and checked once. Loaded by who wants it.

import struct

from ..packet import LONGEST
from .properties5 import user_properties

_MOST = 112  # with those that each client sends it is 127: so their length is one byte


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
    if len(data) > _MOST:
        raise ValueError("properties take %d bytes, at most %d" % (len(data), _MOST))
    return ConnectProperties(data, max_packet or 0, reasons)


def attach(session, given):
    """What connect_properties() made is in each CONNECT of this session. Raises ValueError."""
    half = len(session.buf)
    maximum = half if given.reasons else given.max_packet or session.maximum_in
    if maximum < half:
        raise ValueError("max_packet: %d bytes at least, half the buffer" % half)
    session.maximum_in = maximum
    limit = struct.pack(">BI", 0x27, half) if given.reasons else session.connect_properties
    session.connect_properties = limit + given.data
