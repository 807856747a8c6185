# What a message of levels 3 and 4 has in place of the properties of level 5. Loaded when one of them is asked for.


def field(name):
    """The property of a message that has none. Raises AttributeError for other names."""
    if name == "user":
        return []
    if name == "text":
        return False
    if name == "reply":
        return _reply
    if name in ("expiry", "content_type", "response_topic", "correlation"):
        return None
    raise AttributeError(name)


def _reply(payload=b"", qos=0, retain=False):
    raise ValueError("reply() needs protocol_level=5: at levels 3 and 4 no message tells where an answer is expected")
