"""The server's side of a WebSocket for MQTT, on the package websockets, which checks every frame of the client."""

from websockets.frames import Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol


def whole(protocol, data):
    """All bytes in one frame."""
    protocol.send_binary(data)


class WebSocketServer:
    """A connected socket whose recv() and sendall() take the bytes out of frames, and put them into frames.

    framing(protocol, data) puts data into frames; change(response) changes the answer to the handshake. request: what
    the client asked for. pongs: their payloads; closed: the code with which the client ended it, None: not yet. Raises
    ValueError for a frame that a client must not send."""

    def __init__(self, sock, framing=whole, change=None):
        self._sock = sock
        self.protocol = ServerProtocol(subprotocols=[Subprotocol("mqtt")], max_size=None)
        self.request = self.closed = None
        self.pongs = []
        self._framing, self._change = framing, change

    def __getattr__(self, name):
        return getattr(self._sock, name)

    def recv(self, most):
        while True:
            data = self._sock.recv(most)
            if not data:
                return b""
            self.protocol.receive_data(data)
            found = b"".join(self._handle(event) for event in self.protocol.events_received())
            self.flush()
            if self.protocol.parser_exc and self.closed is None:
                raise ValueError(f"WebSocket: {self.protocol.parser_exc!r}")
            if found or self.closed is not None:
                return found

    def _handle(self, event):
        if self.request is None:
            self.request = event
            response = self.protocol.accept(event)
            if self._change:
                self._change(response)
            self.protocol.send_response(response)
        elif event.opcode in (Opcode.BINARY, Opcode.CONT):
            return bytes(event.data)
        elif event.opcode == Opcode.PONG:
            self.pongs.append(bytes(event.data))
        elif event.opcode == Opcode.CLOSE:
            self.closed = self.protocol.close_rcvd.code
        else:
            raise ValueError(f"WebSocket: {event.opcode} from a client of MQTT")
        return b""

    def flush(self):
        """Sends what the protocol has to send."""
        self._sock.sendall(b"".join(self.protocol.data_to_send()))

    def sendall(self, data):
        if self.protocol.state is State.OPEN:
            self._framing(self.protocol, data)
            self.flush()
