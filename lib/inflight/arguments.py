# What public calls take: the ValueError of an argument names it, what is allowed, and the value.

from .packet import valid

_LONGEST = 60  # characters of a value that are shown
_SECRET = ("user", "password", "headers", "auth")  # may be a secret, or next to one: of these only the type
_OF_A_CLIENT = (  # its arguments
    "host client_id journal port tls path headers user password will keepalive clean_session protocol_level"
    " session_expiry slept auth aliases stall_ms connect_properties buffer max_inflight receive_maximum when_full"
    " timeout_ms retry_ms backoff_ms reconnect max_redeliveries on_message on_connect on_disconnect on_complete"
    " on_error"
)
# Of what errors.refuse() is asked to refuse: what is allowed.
_ALLOWED = {
    "answer": "a function of one argument",
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


def refuse(name, allowed, value):
    """Raises ValueError."""
    if value.__class__ in (str, bytes, bytearray):
        value = value[:_LONGEST]  # there may be no memory for the text of all
    shown = "this " + value.__class__.__name__ if name in _SECRET else repr(value)[:_LONGEST]
    raise ValueError("%s is %s, not %s" % (name, allowed, shown))


def number(name, value, least, most, unit=""):
    """Raises ValueError unless the value is a whole number from least to most; unit: " s", for example."""
    if value.__class__ is not int or not least <= value <= most:
        refuse(name, "a whole number from %d to %d%s" % (least, most, unit), value)


def flag(name, value):
    """Raises ValueError unless the value is True or False (or 1 or 0)."""
    if value not in (False, True):
        refuse(name, "True or False", value)


def function(name, value):
    """Raises ValueError unless the value can be called, or is None."""
    if value is not None and not callable(value):
        refuse(name, "a function or None", value)


def text(name, value):
    """Raises ValueError unless the value is a str."""
    if not isinstance(value, str):
        refuse(name, "a text (str)", value)


def blocks(n, size, unit):
    """Raises ValueError unless a FileFlash or RamFlash may have `n` blocks of `size` bytes; it is erased by `unit`."""
    number("blocks", n, 1, 65535)
    number("block_size", size, unit, 65536, " bytes")
    if size % unit:
        refuse("block_size", "a multiple of %d bytes" % unit, size)


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


def refuse_name(name):
    """Raises TypeError: no argument of a client has this name. It tells the one that was meant: that one shares the
    longest beginning with it, of three characters at least."""
    best, most = "", 2
    plain = name.lower().replace("_", "")
    for known in _OF_A_CLIENT.split():
        n = 0
        for a, b in zip(plain, known.replace("_", "")):
            if a != b:
                break
            n += 1
        if n > most:
            best, most = known, n
    raise TypeError("a client has no argument %s%s" % (name, ": did you mean %s?" % best if best else ""))


def encode(text, protocol_level=4, name="value", topic=False):
    """Returns a string as bytes fit for the wire of MQTT 3.1.1, or of 3.1 (level 3). topic: as encode_name(). Raises
    ValueError, which calls it `name`. [MQTT-1.5.3-1, 1.5.3-2, 4.7.3-2, 4.7.3-3]"""
    data = text.encode() if isinstance(text, str) else text
    limit = 32767 if protocol_level == 3 else 65535
    if not isinstance(data, bytes) or len(data) > limit or (topic and not data) or not valid(data, 0, len(data), topic):
        refused(name, text, limit)
    return data


def encode_name(text, protocol_level=4, name="topic"):
    """Returns a topic name as bytes. Raises ValueError. [MQTT-3.3.2-2, 4.7.1-1, 4.7.3-1]"""
    return encode(text, protocol_level, name, True)
