# What a client at level 5 needs when it is made, and to leave a session that it does not know.


from ..compat import const, passed, ticks_ms
from ..journal.records import DONE, SESSION
from ..packet import ProtocolError
from ..states import MOST_INFLIGHT, POLL

RECORD = const(11)  # bytes of a SESSION record in front of the client id
LONGEST_STALL_MS = const(86_400_000)  # time-outs longer than a quarter of it look for no stalled messages


# --- the client ---


def check(session_expiry, clean_session, stall_ms, max_inflight, retry_ms, timeout_ms):
    """What options does not: arguments that do not go together. Raises ValueError."""
    if clean_session and session_expiry:
        raise ValueError("session_expiry: clean_session=True keeps no session")
    if stall_ms and not 4 * timeout_ms <= stall_ms <= LONGEST_STALL_MS:
        raise ValueError("stall_ms is 0 (never), or at least four times timeout_ms and at most a day")
    if max_inflight > MOST_INFLIGHT:
        raise ValueError("level 5: max_inflight is %d at most" % MOST_INFLIGHT)
    if retry_ms:
        raise ValueError("level 5 repeats nothing on the same connection [MQTT5-4.4.0-1]: retry_ms is 0")


def stored_client_id(journal):
    """Returns the client id that `journal` serves, b"" if none. Raises OSError."""
    found = b""
    nameless = []
    at = journal.scan(SESSION, -1)
    while at >= 0:
        body = bytearray(journal.found_len)
        journal.read(at, 0, body)
        found = bytes(body[RECORD:]) or found
        if len(body) == RECORD:
            nameless.append(at)
        at = journal.scan(SESSION, at)
    if found:
        for at in nameless:  # the id was assigned since, and power was cut before they were marked
            journal.mark(at, DONE)
    return found


# --- a session that the client does not know ---
# The client ends it [MQTT5-3.2.2-4]: by DISCONNECT,
# and if it is still there on the next connection, by Clean Start.


def leave_other_session(client):
    """Waits until the broker has closed the connection on which that was sent: one that is closed while the broker
    still sends may break before the broker has read it. For Base._steps()."""
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
