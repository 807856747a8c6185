"""What the messages of a script say, and where: each tells its number."""

from functools import cache

from dev.reference.server import Message

SHARED = "out/all"  # topic of messages that tell their number in the payload


@cache
def payload(number, size):
    """What message `number` says; its number first, where there is room."""
    filling = bytes((number * 37 + i * 11 + (i >> 8)) & 0xFF for i in range(size))
    return number.to_bytes(4, "big") + filling[4:] if size > 3 else filling


def outgoing(number, qos, size, retain=0):
    """What the client publishes: most messages go where the one before went."""
    topic = SHARED if size > 3 and not retain else f"out/{number}"
    return Message(topic, payload(number, size), qos, bool(retain))


def incoming(number, qos, size):
    """What the client gets."""
    return Message(f"in/{number}", payload(number, size), qos, False)


def number_of(topic, data):
    """The number of a message with this topic and (the beginning of) this payload."""
    return int.from_bytes(data[:4], "big") if topic == SHARED else int(topic.rpartition("/")[2])
