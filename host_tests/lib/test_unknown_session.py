"""Level 5: the broker has a session that the client's journal does not know: the journal was erased, or power was cut
before it knew of the session. The client ends that session, and begins one of its own without Clean Start."""

import errno

import pytest

from host_tests.lib import aio_clients
from inflight.net.transport import Transport
from tools.reference.kinds import DISCONNECT, PUBLISH
from tools.reference.wire import connack, publish

BOTH_CLIENTS = True

NONE = b"\0"


def end_session(b, closes=True):
    """CONNACK has `session present`, and messages of the session are behind it, more of them behind the client's
    DISCONNECT. The client throws them away, and waits until the broker closes."""
    b.called(clean=False)
    b.send(connack(1, 0, NONE) + publish("old", b"", 1, 7, properties=NONE))
    b.send(publish("old", bytes(5000), 1, 8, properties=NONE))
    assert b.expect(DISCONNECT).properties == [(0x11, 0)]
    b.send(publish("old", bytes(5000), 1, 9, properties=NONE))
    if closes:
        b.connection.finish()
    else:
        b.expect_close()


def work(b, **fields):
    b.welcome(0, **fields)
    b.grant()
    first = b.expect(PUBLISH, payload=b"first")
    b.deliver("new", b"x", 1, 1)  # the client leaves when its own message is acknowledged
    b.acknowledge(first)
    b.goodbye()


def refused_end(b):
    # The broker has the session still.
    for _ in range(2):
        end_session(b)
    work(b, clean=True)


def ended(b):
    end_session(b)
    work(b, clean=False)


def ended_by_the_client(b):
    # After half its time-out.
    end_session(b, False)
    work(b, clean=False)


@pytest.mark.parametrize("script", [ended, ended_by_the_client, refused_end])
def test_unknown_session(broker, make, script):
    """[MQTT5-3.2.2-4] [MQTT5-3.1.2-4] [MQTT5-3.14.4-1] Nobody notices: neither connect() nor a callback. What was
    published before is sent once."""
    errors, ends = [], []
    client = make(broker.port, protocol_level=5, on_error=errors.append, on_disconnect=lambda error: ends.append(error))
    got = []
    client.subscribe("new", 1, lambda m: got.append(m.topic))
    client.publish("t", b"first", 1)
    with broker.play(script):
        client.connect()
        assert client.drain(60_000)
        client.disconnect()
    assert got == ["new"] and errors == [] and ends == [None]
    counters = client.counters()
    assert (counters["connects"], counters["outages"], counters["republished"]) == (1, 0, 0)


@pytest.mark.parametrize("result", [OSError(errno.ECONNRESET, "reset"), None])
def test_the_disconnect_is_not_written_at_once(broker, make, monkeypatch, result):
    """The socket takes nothing, and then all; or the link breaks: connect() says so, and the next one is as usual."""
    send = Transport.send
    results = [result]

    def stuck(self, buf, at, n):
        if results and buf[at] == DISCONNECT << 4:
            if result := results.pop():
                raise result
            return None
        return send(self, buf, at, n)

    monkeypatch.setattr(Transport, "send", stuck)

    def script(b):
        if results[0]:
            b.called(clean=False)
            b.send(connack(1, 0, NONE))
            b.expect_close()
        else:
            end_session(b)
        b.welcome(0, clean=False)
        b.take(payload=b"first")
        b.goodbye()

    async def scene():
        client = aio_clients.make(broker.port, protocol_level=5, reconnect=False)
        await client.publish("t", b"first", 1)
        if result:
            with pytest.raises(OSError, match="reset"):
                await client.connect()
        await client.connect()
        assert await client.drain(60_000)
        await client.disconnect()

    aio_clients.play(broker, script, scene)
