# Messages of QoS 2 that arrive at level 5, when there are some of earlier connections, or as many in flight as
# receive_maximum allows. Loaded then.
#
# Some brokers forget a message that expires while its PUBREL is due. Those of an earlier connection make space for new
# ones, the oldest first: what the broker still has, it sends again before anything new [MQTT5-4.4.0-1].

from ..counters import ABANDONED
from ..journal.records import DONE
from ..session.receiving import mark
from .errors5 import ProtocolError5

_TOO_MANY = 0x93


def arrived(session, mid):
    """A PUBLISH of QoS 2 with this Message ID arrived. Raises ProtocolError if there are too many. [MQTT5-3.3.4-9]"""
    first = session.limit
    i = session.row(mid, first)
    if i >= first + session.old_received:
        return
    if i >= 0:
        _come_again(session, i)
    elif session.rows_in - session.old_received >= session.receive_maximum:
        raise ProtocolError5("more messages in flight than receive_maximum", _TOO_MANY)
    elif first + session.rows_in == len(session.mids):
        mark(session, first, DONE)
        session.remove(first)
        session.old_received -= 1
        session.count[ABANDONED] += 1


def _come_again(session, i):
    # It is one of this connection.
    row = session.mids[i], session.addresses[i], session.states[i]
    session.remove(i)
    session.set_row(session.limit + session.rows_in, *row)
    session.rows_in += 1
    session.old_received -= 1
