# The errors of a peer that sends what it may not, or does not answer. They name packets.

from errno import ETIMEDOUT

from ..packet import MALFORMED, PUBACK, PUBREL, ProtocolError
from ..states import REC, STATE

_PACKETS = (
    "RESERVED CONNECT CONNACK PUBLISH PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK PINGREQ"
    " PINGRESP DISCONNECT AUTH"
)


def fault(session, kind=0, mid=0, n=-1, what=None, code=MALFORMED):
    """Returns the ProtocolError of a packet of this type that must not come now; mid: its Message ID, 0: it has none.
    n: its remaining length, if that is invalid, or its flags are, or `what`. Without arguments: the OSError of an
    answer that does not come."""
    name = _PACKETS.split()[kind]
    if n >= 0:
        what = what or "invalid length %d" % n
        if session.protocol_level > 3 and session.flags != (2 if kind == PUBREL else 0):
            what = "invalid flags %d" % session.flags
        return ProtocolError("%s in %s" % (what, name), code)
    if not kind:
        return _timed_out(session)
    text = "unexpected " + name
    if mid:
        text += " for Message ID %d" % mid
        i = session.row(mid)
        if kind == PUBACK and i >= 0 and session.states[i] & STATE == REC:
            text += ": the broker has no QoS 2, publish with qos=1"
    return ProtocolError(text)


def _timed_out(session):
    if not session.connected:
        what = "CONNACK: check host and port"
    elif session.request:
        filters, qos, _ = session.request
        names = ", ".join(['"%s"' % str(f, "utf-8") for f in filters])
        what = "%s of %s" % ("UNSUBACK" if qos is None else "SUBACK", names)
    else:
        what = "PINGRESP"
    return OSError(ETIMEDOUT, "timed out waiting for " + what)
