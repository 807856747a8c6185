# Messages of QoS 2 that arrive at level 5, when there are some of earlier connections, or as many in flight as
# receive_maximum allows. Loaded then.
#
# Some brokers forget a message that expires while its PUBREL is due. Those of an earlier connection make space for new
# ones, the oldest first: what the broker still has, it sends again before anything new [MQTT5-4.4.0-1].

from .counters import ABANDONED
from .errors5 import ProtocolError5
from .records import DONE

_TOO_MANY = 0x93


def arrived(session, mid):
    """A PUBLISH of QoS 2 with this Message ID arrived. Raises ProtocolError if there are too many. [MQTT5-3.3.4-9]"""
    inbound = session.inbound
    old = session.old_received
    i = inbound.row(mid)
    if i >= old:
        return
    if i >= 0:
        _come_again(session, inbound, i)
    elif inbound.rows - old >= session.receive_maximum:
        raise ProtocolError5("more messages in flight than receive_maximum", _TOO_MANY)
    elif inbound.rows == len(inbound.mids):
        inbound._mark(0, DONE)
        inbound.remove(0)
        session.old_received -= 1
        session.count[ABANDONED] += 1


def _come_again(session, inbound, i):
    # It is one of this connection.
    mid, address, state = inbound.mids[i], inbound.addresses[i], inbound.states[i]
    inbound.remove(i)
    inbound._add(mid, address, state)
    session.old_received -= 1
