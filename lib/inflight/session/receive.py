# Messages from the broker: what the session makes of them. The theory stands in window and session.

from errno import ENOBUFS

import inflight.counters as counters
import inflight.packet as packet

from ..compat import const
from ..errors import OutboxFull
from ..journal.records import DONE, IN, RELEASED
from ..packet import PUBLISH, ProtocolError
from ..states import DELIVERED, DUPLICATE, NEW, RECEIVED, REDELIVERED
from .window import Window

_NOTICES = const(8)  # as in session
_OTHERS = (
    ((b"HTTP", b"<"), "this is HTTP: for a WebSocket give path=, else another port, like 1883"),
    ((b"SSH-",), "this is SSH: give another port, like 1883"),
    ((b"\x15\x03", b"\x16\x03"), "this is TLS: give tls=, or another port, like 1883"),
)


class Receiving(Window):
    """A session that receives."""

    closing = False  # the connection ends when its time has come: see _skip_malformed()
    malformed = False  # a PUBLISH was
    left_with_broker = False  # a message of QoS 2 found no space: none goes before it [MQTT-4.6.0-6]
    deliver: bool
    redelivered: bool
    # Of Session.
    connected: bool
    now: int
    count: "Any"  # type: ignore[name-defined] # noqa: F821  counters wrap at 32 bits
    notices: "Any"  # type: ignore[name-defined] # noqa: F821
    pending: "Any"  # type: ignore[name-defined] # noqa: F821
    begin: "Any"  # type: ignore[name-defined] # noqa: F821
    time_left: "Any"  # type: ignore[name-defined] # noqa: F821
    expect_qos_2: "Any"  # type: ignore[name-defined] # noqa: F821

    def _take_publish(self):
        """There is a message, or a piece of one."""
        if self.offset:
            return
        self.redelivered = False
        self.deliver = True
        if self.flags & 4:
            if self.left_with_broker:
                raise OutboxFull
            found = self.take_qos_2(self.mid)
            if found == DUPLICATE:
                self.deliver = False
                self.count[counters.DUPLICATES] += 1
            elif found == REDELIVERED:
                self.redelivered = True
                self.count[counters.REDELIVERED] += 1
            if self.journal:
                self.journal.commit()  # before the application has it: `redelivered` must tell if the power goes

    def take_qos_2(self, mid):
        """A PUBLISH of QoS 2 with this id arrived. Returns NEW, REDELIVERED (power was cut while it was being
        delivered) or DUPLICATE. Raises OutboxFull if it is one more than there is space for."""
        self.expect_qos_2()
        first = self.limit
        i = self.row(mid, first)
        if i >= 0:
            if i < first + self.old_received:
                i = self._come_again(i)
            return DUPLICATE if self.states[i] == DELIVERED else REDELIVERED
        journal = self.journal
        while first + self.rows_in == len(self.mids) or (journal and not journal.fits(IN, 0)):
            if not self.old_received:
                raise OutboxFull
            self._abandon_oldest()
        i = first + self.rows_in
        self.set_row(i, mid, journal.append(IN, mid, b"", 0) if journal else 0, RECEIVED)
        self.rows_in += 1
        return NEW

    # A broker may forget a message whose PUBREL is due: it was killed, or the message has expired. So the ids of
    # earlier connections make space for new ones, the oldest first: what the broker still has, it sends again before
    # anything new [MQTT-4.4.0-1] [MQTT5-4.4.0-1].

    def _come_again(self, i):
        # The id of row i is one of this connection. Returns its new row.
        row = self.mids[i], self.addresses[i], self.states[i]
        self.remove(i)
        i = self.limit + self.rows_in
        self.set_row(i, *row)
        self.rows_in += 1
        return i

    def _abandon_oldest(self):
        if len(self.notices) < _NOTICES:
            mid = self.mids[self.limit]
            self.notices += (OSError(ENOBUFS, "the broker does not release Message ID %d: it is forgotten" % mid),)
        self.count[counters.ABANDONED] += 1
        self.mark_received(self.limit, DONE)
        self.remove(self.limit)

    def delivered(self):
        """The application has had what next_event() returned. A message is acknowledged when it was the last piece,
        with or without a handler [MQTT-3.3.4-1, 4.5.0-2]."""
        if self.left:
            return
        if self.deliver:
            self.count[counters.RECEIVED] += 1
        self.acknowledge_received(self.flags, self.mid)

    def acknowledge_received(self, flags, mid, answer=True):
        """The application is done with the message that came with these flags and Message ID. answer False: not on this
        connection."""
        self.begin()
        if flags & 4:
            i = self.row(mid, self.limit)
            if i >= 0 and self.states[i] == RECEIVED:  # the application must not have it again
                self.mark_received(i, RELEASED)
                self.states[i] = DELIVERED
        if answer and flags & 6:
            self.ack_due = (packet.PUBACK if flags & 2 else packet.PUBREC) << 20 | mid
        self.busy = False

    def _release_received(self):
        """A PUBREL arrived: its id is free. Raises ProtocolError if PUBREC was never sent."""
        i = self.row(self.mid, self.limit)
        if i < 0:
            return
        if self.states[i] == RECEIVED:
            raise ProtocolError("PUBREL before PUBREC, Message ID %d" % self.mid)
        self.mark_received(i, DONE)
        self.remove(i)

    def mark_received(self, i, state):
        """Notes the state of row i, a message from the broker."""
        if self.journal:
            self.journal.mark(self.addresses[i], state)

    # --- messages that cannot be taken ---
    # A PUBLISH that cannot be taken, and that the broker sends on each connection, since it may not be acknowledged: it
    # would end each connection before messages to the broker get through. So it is skipped. Messages that wait leave
    # and are acknowledged, and then the connection ends. It may
    # - break the protocol [MQTT-4.8.0-1]: from the second one on that a session meets, if its length is in order,
    # - be of QoS 2 without space for its id. Those messages may be what takes the space.
    # Likewise if the first bytes of a connection are no CONNACK: what speaks there may be no MQTT broker, since the
    # wrong port is a common mistake.

    def _skip_malformed(self, error, kind):
        """The session met `error`, while it looked for a packet if kind is 0. Raises it, unless that is a PUBLISH to be
        skipped: then it returns what next_packet() does."""
        if isinstance(error, OutboxFull):
            return self._without_space()
        again = self.malformed  # a PUBLISH was malformed before
        left = self._bytes_left() if self.connected and not kind else 0
        if left:
            self.malformed = True
        if not (self.connected or self.start):
            raise _explained(error, self)
        if not (left and again and self.pending):
            raise error
        self._end_later(error)
        self.deliver = self._block_due = False
        self._skip_rest(left)
        return self.next_packet()

    def _without_space(self):
        error = OSError(ENOBUFS, "more QoS 2 messages in flight than receive_maximum or the journal allows")
        if not self.pending:
            raise error
        self._end_later(error)
        self.left_with_broker = True
        self.deliver = False
        self.flags = 0
        return PUBLISH

    def _end_later(self, error):
        if not self.closing:
            self.closing = True
            self.error = error
            self.closing_since = self.now

    def _close_in_time(self):
        # All has been acknowledged, or an answer does not come: raises what ends the connection.
        if not (self.pending and self.time_left(self.now, self.closing_since)):
            raise self.error


def _explained(error, d):
    # Returns a ProtocolError that tells more than `error`: which protocol the first bytes belong to.
    first = bytes(d.buf[: min(d.end, 16)])
    for beginnings, text in _OTHERS:
        for beginning in beginnings:
            if first.startswith(beginning[: max(2, len(first))]):  # not all of it may be there
                return ProtocolError(text)
    return ProtocolError("%s; the port of an MQTT broker? The first bytes are %r" % (error, first))
