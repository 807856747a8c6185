"""Both clients over WebSocket: a server made of the package websockets, and mosquitto's own listener."""

import contextlib
import errno
from pathlib import Path

import pytest
import trustme

from host_tests import mosquitto_lines, processes
from host_tests.broker import PATIENCE_S
from host_tests.clients import no_network
from host_tests.lib import aio_clients
from host_tests.websocket_broker import FRAMINGS, WebSocketBroker, refused, with_header, without
from inflight import Client
from inflight.cpython import stream
from tools.peers.certificates import client_context, der, server_context
from tools.peers.websocket_server import whole
from tools.reference.kinds import PUBLISH, UNSUBSCRIBE
from tools.reference.wire import connack, publish, unsuback
from tools.runtimes import runtime

AUTHORITY = trustme.CA()
LONG = bytes(range(256)) * 8


@pytest.fixture
def serve():
    brokers = []

    def start(*args, **options):
        brokers.append(WebSocketBroker(*args, **options))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


def exchange(b):
    """The broker's part of connecting, subscribing, one message of each QoS each way, and a long one."""
    b.welcome()
    b.grant(2)
    for qos in range(3):
        b.take(qos=qos, payload=b"%d" % qos)
    b.expect(PUBLISH, payload=LONG)
    for qos in range(3):
        b.deliver("t", b"%d" % qos, qos, qos)
    b.release(2)
    b.send(publish("t", LONG))
    b.send(unsuback(b.expect(UNSUBSCRIBE).mid))
    b.goodbye()


EXPECTED = b"012" + LONG


def check_handshakes(websocket):
    """The client asked for MQTT, and ended with a close frame."""
    assert websocket.request.path == "/mqtt"
    assert websocket.request.headers["Sec-WebSocket-Protocol"] == "mqtt"
    assert websocket.closed == 1000


@pytest.mark.parametrize("framing, secure", [*((framing, False) for framing in FRAMINGS), (FRAMINGS[-1], True)])
def test_blocking(serve, make, pump, framing, secure):
    """[MQTT-6.0.0-1] [MQTT5-6.0.0-1] [MQTT-6.0.0-2] [MQTT5-6.0.0-2] [MQTT-6.0.0-3] [MQTT5-6.0.0-3] All QoS both ways,
    packets longer than a frame and than the buffer, whatever the frames of the server."""
    broker = serve(framing, context=server_context(AUTHORITY, "127.0.0.1") if secure else None)
    client = make(broker.port, path="/mqtt", tls=client_context(AUTHORITY) if secure else None)
    got = []
    with broker.play(exchange):
        client.subscribe("t", 2, lambda m: got.append(m.payload), stream=True)
        client.connect()
        for qos in range(3):
            client.publish("out", b"%d" % qos, qos)
            assert client.drain(PATIENCE_S * 1000)
        client.publish("out", LONG)
        pump(client, lambda: b"".join(got) == EXPECTED)
        client.unsubscribe("t")
        client.disconnect()
    check_handshakes(broker.websocket)
    if framing is FRAMINGS[2]:
        assert broker.websocket.pongs


@pytest.mark.parametrize("framing, secure", [*((framing, False) for framing in FRAMINGS), (FRAMINGS[-1], True)])
def test_asyncio(serve, framing, secure):
    """[MQTT-6.0.0-1] [MQTT5-6.0.0-1] [MQTT-6.0.0-2] [MQTT5-6.0.0-2] [MQTT-6.0.0-3] [MQTT5-6.0.0-3] The same."""
    broker = serve(framing, context=server_context(AUTHORITY, "127.0.0.1") if secure else None)
    client = aio_clients.make(broker.port, path="/mqtt", tls=client_context(AUTHORITY) if secure else None)
    got = []

    async def scene():
        await client.subscribe("t", 2, lambda m: got.append(m.payload), stream=True)
        async with client:
            await client.connect()
            for qos in range(3):
                await client.publish("out", b"%d" % qos, qos)
                assert await client.drain(PATIENCE_S * 1000)
            await client.publish("out", LONG)
            await aio_clients.until(lambda: b"".join(got) == EXPECTED)
            await client.unsubscribe("t")

    aio_clients.play(broker, exchange, scene)
    check_handshakes(broker.websocket)


def test_a_short_packet_is_one_frame_in_one_write(serve, make, monkeypatch):
    """Also through TLS or a slow link it is one segment."""
    broker = serve()
    client = make(broker.port, path="/mqtt")
    writes = []

    def script(b):
        b.welcome()
        for _ in range(3):
            b.take()
        b.goodbye()

    with broker.play(script):
        client.connect()
        write = stream.write
        monkeypatch.setattr(stream, "write", lambda *of: writes.append(of[3]) or write(*of))
        frames = broker.websocket.frames
        for k in range(3):
            client.publish("t", b"x" * 100 * k, 1)
        assert client.drain(PATIENCE_S * 1000)
        assert len(writes) == 3
        client.disconnect()
    assert broker.websocket.frames - frames == 4  # and DISCONNECT


def test_reconnecting(serve, make):
    """What is unacknowledged is sent again on the next WebSocket."""
    broker = serve()
    client = make(broker.port, path="/mqtt")

    def script(b):
        b.welcome()
        mid = b.expect(PUBLISH, payload=b"x").mid
        b.cut()
        b.welcome(1)
        b.take(payload=b"x", mid=mid, dup=True)
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.publish("t", b"x", 1)
        assert client.drain(PATIENCE_S * 1000)
        client.disconnect()


def test_the_server_ends_it_with_a_close_frame(serve, make):
    """The client answers, tells the code, and connects again."""
    broker = serve()
    client = make(broker.port, path="/mqtt")

    def script(b):
        b.welcome()
        b.websocket.protocol.send_close(1013, "later")
        b.websocket.flush()
        b.expect_close()
        b.welcome(1)
        b.goodbye()

    with broker.play(script):
        client.connect()
        while client.counters()["connects"] < 2:
            client.run_for(5)
        client.disconnect()
    assert "1013" in str(client.errors[0])
    assert broker.connections[0].sock.closed == 1000


def test_text_ends_the_connection(serve, make):
    """[MQTT-6.0.0-1] [MQTT5-6.0.0-1]"""
    broker = serve()
    client = make(broker.port, path="/mqtt", reconnect=False)

    def script(b):
        b.welcome()
        b.websocket.protocol.send_text(b"text")
        b.websocket.flush()
        b.expect_close()

    with broker.play(script):
        client.connect()
        with pytest.raises(Exception, match="text"):
            client.run_for(PATIENCE_S * 1000)
    assert broker.websocket.closed == 1003
    assert client.counters()["protocol_errors"] == 1


# --- the handshake ---


def come_and_go(broker, client):
    def script(b):
        b.welcome()
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.disconnect()


def test_what_is_asked_for(serve, make):
    """Host with its port, the path with its query, headers of the caller."""
    broker = serve()
    client = make(broker.port, path="/mqtt?token=a%20b", headers={"Authorization": "Bearer x"})
    come_and_go(broker, client)
    request = broker.websocket.request
    assert request.path == "/mqtt?token=a%20b"
    assert request.headers["Host"] == f"127.0.0.1:{broker.port}"
    assert request.headers["Authorization"] == "Bearer x"
    assert "Sec-WebSocket-Extensions" not in request.headers


REFUSALS = {
    "status": (refused(404, "Not Found"), "404 Not Found", errno.ECONNREFUSED),
    "credentials": (refused(401, "Unauthorized"), "401", errno.EACCES),
    "no upgrade": (without("Upgrade"), "no WebSocket", errno.ECONNABORTED),
    "no connection": (without("Connection"), "no WebSocket", errno.ECONNABORTED),
    "no accept": (without("Sec-WebSocket-Accept"), "Accept", errno.ECONNABORTED),
    "wrong accept": (with_header("Sec-WebSocket-Accept", "x" * 28), "Accept", errno.ECONNABORTED),
    "no protocol": (without("Sec-WebSocket-Protocol"), "Protocol mqtt", errno.ECONNABORTED),
    "other protocol": (with_header("Sec-WebSocket-Protocol", "soap"), "Protocol mqtt", errno.ECONNABORTED),
    "extension": (with_header("Sec-WebSocket-Extensions", "permessage-deflate"), "extension", errno.ECONNABORTED),
    "too long": (with_header("X", "x" * 9000), "too long", errno.ECONNABORTED),
}


@pytest.mark.parametrize("why", REFUSALS)
def test_refused(serve, make, why):
    """[MQTT-6.0.0-4] [MQTT5-6.0.0-4] An OSError that tells what is wrong; no packet is sent."""
    change, text, number = REFUSALS[why]
    broker = serve(whole, change)
    client = make(broker.port, path="/mqtt")

    def script(b):
        b.accept()
        b.expect_close()  # the request is answered while its end is waited for

    with broker.play(script), pytest.raises(OSError, match=text) as caught:
        client.connect()
    assert caught.value.errno == number
    assert not client.connected


def test_long_headers_that_nobody_knows(serve, make):
    """Cookies and policies of proxies are passed over."""
    broker = serve(whole, with_header("Strict-Transport-Security", "x" * 3000))
    client = make(broker.port, path="/mqtt")
    come_and_go(broker, client)


def test_no_answer(virtual, make):
    """A server that says nothing, or never ends its answer: a time-out."""
    client = make(virtual.port, path="/mqtt")

    def script(b):
        assert b.accept()._recv(4096)[:4] == b"GET "
        b.send(b"HTTP/1.1 101 x\r\n")
        assert b.connection._recv(1) == b""

    with virtual.play(script), pytest.raises(OSError) as caught:
        client.connect()
    assert caught.value.errno == errno.ETIMEDOUT


def test_an_mqtt_broker_without_websocket(broker, make):
    """It closes the connection, or answers with something else than HTTP."""
    client = make(broker.port, path="/mqtt")

    def script(b):
        assert b.accept()._recv(4096)[:4] == b"GET "
        b.send(connack() + b"\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b.connection._recv(1) == b""
        assert b.accept()._recv(4096)[:4] == b"GET "
        b.cut()

    with broker.play(script):
        for _ in range(2):
            with pytest.raises(OSError):
                client.connect()


@pytest.mark.parametrize(
    "options",
    [
        {"path": "mqtt"},
        {"path": ""},
        {"path": "/a b"},
        {"path": "/\r\nX: y"},
        {"path": "/mqtt", "headers": {"X": "a\r\nY: b"}},
        {"path": "/mqtt", "headers": {"X:": "a"}},
        {"path": "/mqtt", "headers": {"": "a"}},
        {"path": "/ä"},
    ],
    ids=repr,
)
def test_bad_arguments(options):
    with pytest.raises(ValueError):
        Client("localhost", "dev", **options)


def test_default_ports():
    for options, port in (({}, 80), ({"tls": client_context(AUTHORITY)}, 443)):
        with no_network() as asked, pytest.raises(OSError):
            Client("localhost", "dev", path="/mqtt", **options).connect()
        assert asked == [("localhost", port)]


# --- mosquitto ---


SCRIPT = Path(__file__).parent / "device_scripts" / "websocket.py"


@pytest.mark.parametrize("name", ["cpython", "micropython-x86"])
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_mosquitto(mosquitto, tmp_path, name, secure):
    """Both clients, through mosquitto's own listener and back."""
    found = runtime(name)
    if found.reason:
        pytest.skip(f"{found.name} is unavailable: {found.reason}")
    ca = "-"
    lines = []
    if secure:
        lines = mosquitto_lines.tls(tmp_path, AUTHORITY, "localhost")
        ca = tmp_path / "ca.der"
        ca.write_bytes(der(AUTHORITY))
    port = mosquitto("protocol websockets", *lines).port
    with processes.running(found, SCRIPT, port, ca, heap="600k") as process:
        output = process.communicate(timeout=PATIENCE_S)[0]
    assert output == "blocking: ok\nasyncio: ok\n"
