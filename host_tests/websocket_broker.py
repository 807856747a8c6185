"""The scripted broker behind WebSocket frames."""

from websockets.datastructures import Headers

from host_tests.broker import Broker, Connection
from tools.peers.websocket_server import WebSocketServer, whole

# Ways to put packets into frames, which leave the client no bounds of packets to rely on [MQTT-6.0.0-2].


def single_bytes(protocol, data):
    """A frame for each of the first bytes."""
    for at in range(min(len(data), 50)):
        protocol.send_binary(data[at : at + 1])
    if data[50:]:
        protocol.send_binary(data[50:])


def parts(protocol, data):
    """Messages in frames of 3 bytes, longer ones if there are many, with a ping before each, and an empty message."""
    protocol.send_binary(b"")
    size = max(3, len(data) // 20)
    for at in range(0, len(data), size):
        protocol.send_ping(b"ping %d" % at)
        send = protocol.send_continuation if at else protocol.send_binary
        send(data[at : at + size], fin=at + size >= len(data))


FRAMINGS = (whole, single_bytes, parts)


class WebSocketBroker(Broker):
    """The `sock` of its connections is a WebSocketServer. context: for TLS."""

    def __init__(self, framing=whole, change=None, context=None):
        super().__init__()
        self._framing, self._change, self._context = framing, change, context

    def accept(self):
        sock = super().accept().sock
        if self._context:
            sock = self._context.wrap_socket(sock, server_side=True)
        self.connections[-1] = Connection(WebSocketServer(sock, self._framing, self._change))
        return self.connections[-1]

    @property
    def websocket(self):
        return self.connection.sock


def without(name):
    """A change: the answer lacks this header."""

    def change(response):
        del response.headers[name]

    return change


def with_header(name, value):
    """A change: the answer has this header, with this value only."""

    def change(response):
        if name in response.headers:
            del response.headers[name]
        response.headers[name] = value

    return change


def refused(code, reason):
    """A change: the answer is this status, without headers of a WebSocket."""

    def change(response):
        response.status_code, response.reason_phrase = code, reason
        response.headers = Headers()

    return change
