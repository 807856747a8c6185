# DISCONNECT at level 5: that of the broker, and ours after an error of the broker. Loaded when one is to be handled.

from .cursor import ERROR, IN_DISCONNECT, REASON, SERVER_REFERENCE, ProtocolError5
from .mqtt5 import TAKEN_OVER
from .packet import DISCONNECT, ProtocolError
from .refused import Disconnected, slow_down

_SESSION_TAKEN_OVER = 0x8E
_CODES = b"\x80\x81\x82\x83\x87\x89\x8b\x8d\x8e\x8f\x90\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\xa1\xa2"


def handle(session, kind):
    """DISCONNECT or AUTH arrived. Raises Disconnected, or ProtocolError. [MQTT5-3.14.2-1]"""
    d = session.decoder
    code = d.code
    if kind != DISCONNECT:
        if not session.auth:
            raise ProtocolError5("AUTH, but no authentication method", ERROR)  # [MQTT5-4.12.0-6]
        session.auth.received()
        return
    if code and code not in _CODES:
        raise ProtocolError5("reason code %02x of DISCONNECT" % code, ERROR)
    reason = reference = ""
    if d.block:
        d.cursor.start(d.block, d.start, IN_DISCONNECT)
        found = d.cursor.next()
        while found:
            if found == REASON:
                reason = d.cursor.text()
            elif found == SERVER_REFERENCE:
                reference = d.cursor.text()
            found = d.cursor.next()
    if code == _SESSION_TAKEN_OVER:
        session.count[TAKEN_OVER] += 1
    session.busy = False  # nothing is half done
    raise Disconnected(code, reason, reference)


def leave(session, client, error):
    """`error` ends the connection. The broker is told if it broke the protocol [MQTT5-4.13.1-1]."""
    if not isinstance(error, ProtocolError):
        slow_down(client, getattr(error, "code", 0))
        return
    if getattr(client, "_out_left", 0):
        return  # nobody understands a DISCONNECT within another packet
    session.disconnect(getattr(error, "code", ERROR))
    try:
        client._flush()
    except Exception:
        pass  # it is gone already
