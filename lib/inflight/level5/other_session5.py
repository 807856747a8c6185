# Level 5: the broker has a session that the client does not know. The client ends it [MQTT5-3.2.2-4]: by DISCONNECT,
# and if it is still there on the next connection, by Clean Start. Loaded then.

from ..compat import passed, ticks_ms
from ..packet import ProtocolError
from ..states import BY_CONNECT, BY_DISCONNECT, OTHER_SESSION, POLL

_END = b"\x07\x00\x05\x11\x00\x00\x00\x00"  # what stands behind the type of a DISCONNECT: Session Expiry Interval 0


def end(session):
    """CONNACK tells of such a session: a DISCONNECT ends it. If that is lost, the next CONNECT does it."""
    session.ending = BY_CONNECT if session.ending else BY_DISCONNECT
    session.code = OTHER_SESSION
    session.disconnect()
    session.out[1 : 1 + len(_END)] = _END
    session.send(1 + len(_END))


def leave(client):
    """Waits until the broker has closed the connection on which that was sent: one that is closed while the broker
    still sends may break before the broker has read it. For handshake.steps()."""
    ending = client._transport = _Ending(client._transport, client._timeout_ms // 2)
    while not ending.closed:
        yield POLL
    ending.close()
    client._transport = None


class _Ending:
    # The transport of a connection that ends, for `ms` at most: what still comes is thrown away.

    def __init__(self, transport, ms):
        self._transport = transport
        self.file = transport.file
        self.send = transport.send
        self.close = transport.close
        self._ms = ms
        self._since = ticks_ms()
        self.closed = False

    def receive(self, view, space):
        self._try(self._transport.receive, view, space)
        return 0

    def wait(self, ms, write=False):
        self._try(self._transport.wait, ms, write)

    def _try(self, step, *args):
        try:
            step(*args)
        except (OSError, ProtocolError):
            self.closed = True
        if passed(ticks_ms(), self._since, self._ms):
            self.closed = True
