# What a message of levels 3 and 4 answers when it is asked for the properties of level 5: the same for handlers and for
# consumers of `async for`.

from harness import eq, raises
from inflight import Client, Journal, RamFlash
from inflight.client.consumers import Inbox, Received
from inflight.client.handlers import Message

RUNTIMES = "cpython micropython-x86"
FIELDS = ("expiry", "content_type", "response_topic", "correlation", "text", "user")


def messages(level):
    client = Client("h", "dev", Journal(RamFlash()), protocol_level=level)
    session = client.session
    session.connect(0, False, 60, None, None, None)
    while session.data_to_send(0):
        pass
    feed(session, b"\x20\x02\x00\x00")
    eq(session.next_event(0), 2)
    eq(session.next_event(0), 0)
    session.resume()
    feed(session, b"\x32\x06\x00\x01t\x00\x05x")
    eq(session.next_event(0), 3)
    inbox = Inbox(200)
    assert inbox.put(session, False)
    return Message(session), inbox.take(Received)


def feed(session, data):
    session.into[: len(data)] = data
    session.bytes_received(len(data), 0)


def test_there_are_none():
    for level in (3, 4):
        for message in messages(level):
            eq((message.topic, message.payload, message.qos, message.mid), ("t", b"x", 1, 5))
            eq([getattr(message, name) for name in FIELDS], [None, None, None, None, False, []])
            told = raises(ValueError, message.reply, b"done", 1)
            assert "protocol_level=5" in str(told)
            assert not hasattr(message, "content")
