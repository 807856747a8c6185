# The receiver of QoS 2: which Message IDs the broker has in flight towards us. Each is a record
# of the journal (or of RAM alone), so that a message is delivered once across power cuts.
#
#   row        PUBLISH                              PUBREL             clause
#   none       row, deliver, DELIVERED, PUBREC      PUBCOMP            MQTT-4.3.3-2
#   RECEIVED   deliver again, DELIVERED, PUBREC     error              power was cut in the handler
#   DELIVERED  PUBREC                               no row, PUBCOMP    MQTT-4.3.3-2
#
# This is the standard's method B (figure 4.3): only the id is kept. It takes 15 bytes of flash
# instead of a copy of the message, which the broker holds until our PUBREC anyway. MQTT 3.1 says
# that a message becomes available at PUBREL; no peer can tell the difference.
#
# Many clients never hear of QoS 2: the session loads this when it is to be expected.

from .compat import const
from .errors import OutboxFull
from .in_flight import InFlight
from .packet import ProtocolError
from .records import DONE, IN, RELEASED
from .states import DUPLICATE, NEW, REDELIVERED

_RECEIVED = const(0)
_DELIVERED = const(1)


class Inbound(InFlight):
    """At most `limit` received QoS 2 messages without their PUBREL, beside what journal holds; with it
    twice as many: a restart must not give more space to a broker that never releases any."""

    def __init__(self, journal, limit):
        self._journal = journal
        kept = self._scan(False)
        self._allocate(kept + limit if kept <= limit else kept)
        if kept:  # scanning a long journal takes an RP2040 a second
            self._scan(True)

    def _scan(self, add):
        n = 0
        journal = self._journal
        at = journal.scan(IN, -1) if journal else -1
        while at >= 0:
            n += 1
            if add:
                self._add(journal.found_mid, at, _DELIVERED if journal.found_state else _RECEIVED)
            at = journal.scan(IN, at)
        return n

    def _mark(self, i, mark):
        if self._journal:
            self._journal.mark(self.addresses[i], mark)

    def received(self, mid):
        """A PUBLISH with this id arrived. Returns NEW, REDELIVERED (power was cut while it was
        being delivered) or DUPLICATE. Raises OutboxFull if it is one more than there is space for."""
        i = self.row(mid)
        if i >= 0:
            return DUPLICATE if self.states[i] == _DELIVERED else REDELIVERED
        if self.rows == len(self.mids):
            raise OutboxFull
        self._add(mid, self._journal.append(IN, mid, b"", 0) if self._journal else 0, _RECEIVED)
        return NEW

    def delivered(self, mid):
        """The application has had the message: it must not have it again."""
        i = self.row(mid)
        if i >= 0 and self.states[i] == _RECEIVED:
            self._mark(i, RELEASED)
            self.states[i] = _DELIVERED

    def released(self, mid):
        """A PUBREL arrived: the id is free. Raises ProtocolError if PUBREC was never sent."""
        i = self.row(mid)
        if i < 0:
            return
        if self.states[i] == _RECEIVED:
            raise ProtocolError("PUBREL before PUBREC, Message ID %d" % mid)
        self._mark(i, DONE)
        self.remove(i)

    def session_lost(self):
        """The broker has lost the session: its ids begin anew."""
        for i in range(self.rows):
            self._mark(i, DONE)
        self.rows = 0
