# The errors of a peer that sends what it may not, or does not answer.

from errno import ETIMEDOUT

from ..packet import PUBACK, ProtocolError
from ..states import REC, STATE

_PACKETS = (
    "CONNECT CONNACK PUBLISH PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK PINGREQ PINGRESP"
    " DISCONNECT AUTH"
)


def fault(session, kind=0, mid=0):
    """Returns the ProtocolError of a packet of this type that must not come now; mid: its Message ID, 0: it has none.
    kind 0: the OSError of an answer that does not come."""
    if not kind:
        return _timed_out(session)
    text = "unexpected " + _PACKETS.split()[kind - 1]
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
