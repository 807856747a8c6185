# Topic names of the caller.

from .errors import refuse
from .packet import valid


def encode(text, protocol_level=4, name="value", topic=False):
    """Returns a string as bytes fit for the wire of MQTT 3.1.1, or of 3.1 (level 3). topic: as encode_name(). Raises
    ValueError, which calls it `name`. [MQTT-1.5.3-1, 1.5.3-2, 4.7.3-2, 4.7.3-3]"""
    data = text.encode() if isinstance(text, str) else text
    limit = 32767 if protocol_level == 3 else 65535
    if not isinstance(data, bytes) or len(data) > limit or (topic and not data) or not valid(data, 0, len(data), topic):
        refuse(name, text, limit)
    return data


def encode_name(text, protocol_level=4, name="topic"):
    """Returns a topic name as bytes. Raises ValueError. [MQTT-3.3.2-2, 4.7.1-1, 4.7.3-1]"""
    return encode(text, protocol_level, name, True)
