"""Both clients over WebSocket: a server made of the package websockets, and mosquitto's own listener. Frames, and the
answers of servers, are tested in device/lib/test_websocket.py."""

import errno
from pathlib import Path

import pytest
import trustme

from host_tests import mosquitto_lines, processes
from host_tests.absent import interpreter
from host_tests.broker import PATIENCE_S
from host_tests.clients import no_network
from host_tests.websocket_broker import WebSocketBroker, refused, with_header
from inflight import Client
from tools.peers.certificates import client_context, der, server_context
from tools.reference.kinds import PUBLISH, UNSUBSCRIBE
from tools.reference.wire import publish, unsuback

BOTH_CLIENTS = True

AUTHORITY = trustme.CA()
LONG = bytes(range(256)) * 8


@pytest.fixture
def serve():
    with processes.started(WebSocketBroker, WebSocketBroker.close) as start:
        yield start


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


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_messages(serve, make, pump, secure):
    """[MQTT-6.0.0-1] [MQTT5-6.0.0-1] [MQTT-6.0.0-2] [MQTT5-6.0.0-2] [MQTT-6.0.0-3] [MQTT5-6.0.0-3] All QoS both ways,
    packets longer than a frame and than the buffer. The client asked for MQTT, and ends with a close frame."""
    broker = serve(context=server_context(AUTHORITY, "127.0.0.1") if secure else None)
    client = make(broker.port, path="/mqtt", tls=client_context(AUTHORITY) if secure else None)
    got = []
    with broker.play(exchange):
        client.subscribe("t", 2, lambda m: got.append(m.payload), stream=True)
        client.connect()
        for qos in range(3):
            client.publish("out", b"%d" % qos, qos)
            assert client.drain(PATIENCE_S * 1000)
        client.publish("out", LONG)
        pump(client, lambda: b"".join(got) == b"012" + LONG)
        client.unsubscribe("t")
        client.disconnect()
    websocket = broker.websocket
    assert websocket.request.path == "/mqtt" and websocket.request.headers["Sec-WebSocket-Protocol"] == "mqtt"
    assert websocket.closed == 1000 and websocket.pongs


def test_the_server_ends_it_with_a_close_frame(serve, make):
    """The client answers, tells the code, and sends what is unacknowledged on the next WebSocket."""
    broker = serve()
    client = make(broker.port, path="/mqtt")

    def script(b):
        b.welcome()
        mid = b.expect(PUBLISH, payload=b"x").mid
        b.websocket.protocol.send_close(1013, "later")
        b.websocket.flush()
        b.expect_close()
        b.welcome(1)
        b.take(payload=b"x", mid=mid, dup=True)
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.publish("t", b"x", 1)
        assert client.drain(PATIENCE_S * 1000)
        client.disconnect()
    assert "1013" in str(client.errors[0])
    assert broker.connections[0].sock.closed == 1000


def test_what_is_asked_for(serve, make):
    """Host with its port, the path with its query, headers of the caller. Cookies and policies of proxies in the answer
    are passed over."""
    broker = serve(with_header("Strict-Transport-Security", "x" * 3000))
    client = make(broker.port, path="/mqtt?token=a%20b", headers={"Authorization": "Bearer x"})

    def script(b):
        b.welcome()
        b.goodbye()

    with broker.play(script):
        client.connect()
        client.disconnect()
    request = broker.websocket.request
    assert request.path == "/mqtt?token=a%20b"
    assert request.headers["Host"] == f"127.0.0.1:{broker.port}"
    assert request.headers["Authorization"] == "Bearer x"
    assert "Sec-WebSocket-Extensions" not in request.headers


def test_refused(serve, make):
    """An OSError that tells what is wrong; no packet is sent."""
    broker = serve(refused(401, "Unauthorized"))
    client = make(broker.port, path="/mqtt")

    def script(b):
        b.accept()
        b.expect_close()  # the request is answered while its end is waited for

    with broker.play(script), pytest.raises(OSError, match="401") as caught:
        client.connect()
    assert caught.value.errno == errno.EACCES
    assert not client.connected


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


def test_default_ports():
    for options, port in (({}, 80), ({"tls": client_context(AUTHORITY)}, 443)):
        with no_network() as asked, pytest.raises(OSError):
            Client("localhost", "dev", path="/mqtt", **options).connect()
        assert asked == [("localhost", port)]


SCRIPT = Path(__file__).parent / "device_scripts" / "websocket.py"


@pytest.mark.parametrize(("name", "secure"), [("cpython", False), ("micropython-x86", True)], ids=str)
def test_mosquitto(mosquitto, tmp_path, name, secure):
    """Both clients, through mosquitto's own listener and back."""
    found = interpreter(name)
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
