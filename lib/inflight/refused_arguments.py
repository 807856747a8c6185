# What the calls for each message refuse. Loaded then, by errors.refuse().

from .arguments import flag, refuse
from .packet import valid

# Of what errors.refuse() is asked to refuse: what is allowed.
_ALLOWED = {
    "answer": "a function",
    "correlation": "bytes, 127 at most",
    "expiry": "a whole number from 1 to 4294967295 s",
    "mid": "a Message ID, a whole number",
    "ms": "a whole number below 536870912 (6 days)",
    "payload": "str, bytes, bytearray or memoryview",
    "properties": "what properties() makes, without will_delay",
    "text": "True or False",
    "user properties": "((name, value), ...)",
    "will": "False, or True with protocol_level=5",
    "will_delay": "a whole number from 0 to 4294967295 s",
}


def refused(name, value, other=None):
    """errors.refuse(). other: of qos the flag RETAIN, of a text how many bytes it may have."""
    if name == "qos":
        if value.__class__ is not int or not 0 <= value <= 2:
            refuse(name, "0, 1 or 2", value)
        flag("retain", other)
        raise ValueError("qos %d needs a journal, at least Journal(RamFlash())" % value)
    if name in _ALLOWED:
        refuse(name, _ALLOWED[name], value)
    data = value.encode() if isinstance(value, str) else value
    if not isinstance(data, bytes):
        refuse(name, "str or bytes", value)
    if len(data) > other:
        raise ValueError("%s has %d bytes, at most %d" % (name, len(data), other))
    if not valid(data, 0, len(data), False):
        refuse(name, "UTF-8 without control characters", value)
    refuse(name, "at least one character, without + and #", value)
