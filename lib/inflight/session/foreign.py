# Message IDs of a foreign session: one that the broker has for our client id, and the journal does not know. The broker
# may hold some of its ids as those of QoS 2 messages, and would take new messages under these ids for repetitions. A
# PUBREL frees an id [MQTT-4.3.3-2]. So before a QoS 2 message is sent under an id that is not proven free, PUBRELs are
# sent for it and some ids behind it.

from ..compat import const
from ..journal.records import OUT
from ..packet import PUBREL, ack

_PROBES = const(16)  # PUBRELs in one write; the smallest buffer has space for them


class ForeignIds:
    """The ids that are not proven free: n of them, from `mid` on, in the order in which they are given. The SESSION
    record has both numbers."""

    def __init__(self, session, mid, n):
        self._session = session
        session.record_stale = session.record_stale or session.unproven != n or session.next_unproven != mid
        session.next_unproven = mid
        session.unproven = n
        self.reset()

    def reset(self):
        """The connection ended."""
        self.asked = 0  # a bit for each PUBREL that is unanswered, from that of next_unproven on
        self.pinged = False  # a PINGREQ was sent behind them

    def is_unproven(self, mid):
        """True if the broker may hold this id."""
        return (mid - self._session.next_unproven) % 65535 < self._session.unproven

    def write_probes(self, buf):
        """Puts PUBRELs for the next ids into buf. Returns their size in bytes."""
        n = 0
        mid = self._session.next_unproven
        for _ in range(min(_PROBES, self._session.unproven)):
            n = ack(buf, PUBREL, mid, 0, n)
            mid = mid % 65535 + 1
        self.asked = (1 << n // 4) - 1
        self.pinged = False
        return n

    def is_answer(self, mid):
        """A PUBCOMP arrived. Returns True if it answers one of the PUBRELs."""
        k = (mid - self._session.next_unproven) % 65535
        if k >= _PROBES or not self.asked >> k & 1:
            return False
        self.asked &= ~(1 << k)
        if not self.asked:
            self._prove()
        return True

    def ping_answered(self):
        """A PINGRESP arrived: the broker has received what was sent before its PINGREQ, and does not answer PUBRELs for
        ids that it does not hold, or will later. Returns True if some were unanswered."""
        unanswered = self.asked > 0 and self.pinged
        if unanswered:
            self._prove()
        return unanswered

    def _prove(self):
        session = self._session
        n = min(_PROBES, session.unproven)
        self.asked = 0
        session.next_unproven = (session.next_unproven + n - 1) % 65535 + 1
        session.unproven -= n
        session.write_record(session.recorded_most)  # before a message leaves under one of these ids


def suspect(session, mid, n=65535):
    """The broker may hold n Message IDs, the next one is `mid`, for messages that the journal does not know."""
    session.foreign = ForeignIds(session, mid, n)


def oldest_mid(session):
    """Returns the id of the oldest message, or that of the next one."""
    address = session.journal.find(OUT, 0)
    return session.last_mid % 65535 + 1 if address < 0 else session.journal.found_mid


def after_damage(session):
    """Nobody knows which ids are free, but those of messages that are still there, from the oldest to the last one: a
    PUBREL of ours would end their handshakes. Those of them that were not proven free before are not now."""
    oldest = oldest_mid(session)
    last = session.last_mid
    first = session.next_unproven
    n = 65535
    if (oldest - first) % 65535 >= session.unproven:
        if not session.unproven or (first - oldest) % 65535 > (last - oldest) % 65535:
            first = last % 65535 + 1
        n = (oldest - first) % 65535 or 65535
    suspect(session, first, n)
