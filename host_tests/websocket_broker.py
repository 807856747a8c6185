"""The scripted broker behind WebSocket frames."""

from websockets.datastructures import Headers

from host_tests.broker import Broker, Connection
from tools.peers.websocket_server import WebSocketServer


def parts(protocol, data):
    """Messages in frames of 3 bytes, longer ones if there are many, with a ping before each, and an empty message: the
    client has no bounds of packets to rely on [MQTT-6.0.0-2]."""
    protocol.send_binary(b"")
    size = max(3, len(data) // 20)
    for at in range(0, len(data), size):
        protocol.send_ping(b"ping %d" % at)
        send = protocol.send_continuation if at else protocol.send_binary
        send(data[at : at + size], fin=at + size >= len(data))


class WebSocketBroker(Broker):
    """The `sock` of its connections is a WebSocketServer. change: of its answer to the handshake; context: for TLS."""

    def __init__(self, change=None, context=None):
        super().__init__()
        self._change, self._context = change, context

    def accept(self):
        sock = super().accept().sock
        if self._context:
            sock = self._context.wrap_socket(sock, server_side=True)
        self.connections[-1] = Connection(WebSocketServer(sock, parts, self._change))
        return self.connections[-1]

    @property
    def websocket(self):
        return self.connection.sock


def with_header(name, value):
    """A change: the answer has this header."""

    def change(response):
        response.headers[name] = value

    return change


def refused(code, reason):
    """A change: the answer is this status, without headers of a WebSocket."""

    def change(response):
        response.status_code, response.reason_phrase = code, reason
        response.headers = Headers()

    return change
