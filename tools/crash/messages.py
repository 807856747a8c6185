"""Topics and payloads of a script's messages. Each message contains its number."""

from functools import cache

from tools.reference.server import Message

SHARED = "out/all"  # topic of messages with their number in the payload


@cache
def payload(number, size):
    """The payload of a message; it begins with the number if it has four bytes or more."""
    filling = bytes((number * 37 + i * 11 + (i >> 8)) & 0xFF for i in range(size))
    return number.to_bytes(4, "big") + filling[4:] if size > 3 else filling


def outgoing(number, qos, size, retain=0):
    """A message that the client publishes; most have the same topic."""
    topic = SHARED if size > 3 and not retain else f"out/{number}"
    return Message(topic, payload(number, size), qos, bool(retain))


def incoming(number, qos, size):
    """A message that the client receives."""
    return Message(f"in/{number}", payload(number, size), qos, False)


def number_of(topic, data):
    """The number of a message with this topic and (the beginning of) this payload."""
    return int.from_bytes(data[:4], "big") if topic == SHARED else int(topic.rpartition("/")[2])
