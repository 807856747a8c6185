# The end of a connection at level 5: DISCONNECT of the broker, ours after an error of the broker, and a broker that
# does not acknowledge a message. Loaded when one is to be handled.

from errno import ETIMEDOUT

from ..compat import const
from ..counters import STALLS, TAKEN_OVER
from ..packet import DISCONNECT, PINGRESP, ProtocolError
from ..session.refused import Disconnected, slow_down
from ..states import REL, SEND, STATE, TOO_LONG
from .cursor import IN_DISCONNECT, REASON, SERVER_REFERENCE
from .errors5 import ERROR, ProtocolError5

_SESSION_TAKEN_OVER = 0x8E
_CODES = b"\x80\x81\x82\x83\x87\x89\x8b\x8d\x8e\x8f\x90\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\xa1\xa2"
_LONGEST_STALL_MS = const(3_600_000)


def handle(session, kind):
    """DISCONNECT or AUTH arrived, or PINGRESP after a message has waited for long. Raises Disconnected, ProtocolError,
    OSError. [MQTT5-3.14.2-1]"""
    code = session.reason_code
    if kind == PINGRESP:
        _look_for_progress(session)
        return
    if kind != DISCONNECT:
        if not session.auth:
            raise ProtocolError5("AUTH, but no authentication method", ERROR)  # [MQTT5-4.12.0-6]
        session.auth.received()
        return
    if code and code not in _CODES:
        raise ProtocolError5("reason code %02x of DISCONNECT" % code, ERROR)
    reason = reference = ""
    if session.block:
        cursor = session.properties(IN_DISCONNECT)
        found = cursor.next()
        while found:
            if found == REASON:
                reason = cursor.text()
            elif found == SERVER_REFERENCE:
                reference = cursor.text()
            found = cursor.next()
    if code == _SESSION_TAKEN_OVER:
        session.count[TAKEN_OVER] += 1
    elif code == TOO_LONG:
        _set_longest_aside(session)
    session.busy = False  # nothing is half done
    raise Disconnected(code, reason, reference)


def _set_longest_aside(session):
    # A packet was too long for the broker, which may not have said how much it takes. The longest one of this
    # connection was, for certain.
    i = session.row(session.longest_mid)
    if i < 0 or not SEND < session.states[i] & STATE < REL:
        return  # it has no Message ID, or the broker has taken it
    from ..session.set_aside import set_aside

    set_aside(session, i, TOO_LONG)
    session.aside.failed(session.now)


def _look_for_progress(session):
    # The broker answers, so the link is in order; the oldest message was acknowledged meanwhile, or it is stuck. Each
    # time without progress the client is more patient.
    probed = session.probed
    session.probed = 0
    if session.rows and probed == session.mids[0] << 3 | session.states[0] & STATE:
        session.count[STALLS] += 1
        session.stuck = session.mids[0]
        session.stall = max(session.stall_ms, min(2 * session.stall, _LONGEST_STALL_MS))
        session.busy = False  # nothing is half done
        raise OSError(ETIMEDOUT, "message %d is not acknowledged" % session.stuck)


def leave(session, client, error):
    """`error` ends the connection. The broker is told if it broke the protocol [MQTT5-4.13.1-1]."""
    if not isinstance(error, ProtocolError):
        slow_down(client, getattr(error, "code", 0))
        return
    if client._out_left:
        return  # nobody understands a DISCONNECT within another packet
    session.disconnect(getattr(error, "code", ERROR))
    try:
        client._write()
    except Exception:
        pass  # it is gone already
