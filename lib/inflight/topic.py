# Topic names of the caller, and matching of names that arrive.

from .packet import valid

_WILDCARDS = b"+#"


def encode(text, protocol_level=4):
    """Returns a string as bytes fit for the wire of MQTT 3.1.1, or of 3.1 (level 3). Raises ValueError.
    [MQTT-1.5.3-1, 1.5.3-2, 4.7.3-2, 4.7.3-3]"""
    data = text.encode() if isinstance(text, str) else text
    if not isinstance(data, bytes):
        raise ValueError("str or bytes wanted, not %s" % type(text))
    limit = 32767 if protocol_level == 3 else 65535
    if len(data) > limit:
        raise ValueError("%d bytes of text, at most %d" % (len(data), limit))
    if not valid(data, 0, len(data), False):
        raise ValueError("text is not UTF-8 free of control characters")
    return data


def encode_name(text, protocol_level=4):
    """Returns a topic name as bytes. Raises ValueError. [MQTT-3.3.2-2, 4.7.1-1, 4.7.3-1]"""
    data = encode(text, protocol_level)
    if not data or not valid(data, 0, len(data), True):
        raise ValueError("topic name is empty or has a wildcard")
    return data


def matches(pattern, buf, i, end):
    """True if the topic name buf[i:end] matches the filter `pattern` (bytes), byte for byte.
    Wildcards at the front do not match names with $. [MQTT-4.7.2-1, 4.7.3-4]"""
    if buf[i] == 0x24 and pattern[0] in _WILDCARDS:
        return False
    n = len(pattern)
    for k in range(n):
        c = pattern[k]
        if c == 0x23:  # '#'
            return True
        if c == 0x2B:  # '+'
            while i < end and buf[i] != 0x2F:
                i += 1
        elif i < end and buf[i] == c:
            i += 1
        else:
            # "a/#" matches its parent "a" as well.
            return i == end and c == 0x2F and k + 2 == n and pattern[k + 1] == 0x23
    return i == end
