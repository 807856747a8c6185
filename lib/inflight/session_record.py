# The SESSION record: what a session keeps in the journal beside its messages and the ids that it received. FORMAT.md
# tells its body. Its mode says what the next CONNACK means for the messages that were sent:
#
#   mode          then CONNACK says            what was sent, ids received     clause
#   PERSISTENT    session present, or level 3  continue                        MQTT-3.1.2-4, 4.4.0-1
#                 none present                 is sent again; are forgotten    MQTT-3.2.2-3
#   ENDING        clean session                is given up; are forgotten      MQTT-3.1.2-6
#                 session present, or level 3  continue
#                 none present                 is given up; are forgotten
#   CLEAN         anything                     is given up; are forgotten      MQTT-3.1.2-6
#   UNSURE        anything                     as PERSISTENT: never given up
#
# A CONNECT with clean session changes PERSISTENT to ENDING, its CONNACK changes it to CLEAN; any other CONNACK changes
# it to PERSISTENT.

import struct
from errno import ENOBUFS

from .compat import const
from .journal import DONE, OUT, SESSION, OutboxFull
from .outbound import DUP

PERSISTENT = const(0)
ENDING = const(1)
CLEAN = const(2)
UNSURE = const(3)

_FORM = "<BHIHH"  # before the client id: mode and serial number, most, below, next_unproven, unproven
_FORM_SIZE = const(11)


class SessionRecord:
    """The SESSION record of `journal` (None: there is none) for the client `client_id` (bytes). There are two copies of
    it, since all messages depend on it. Raises ValueError if the journal serves another client id [MQTT-3.1.3-2], or is
    too small for this one."""

    def __init__(self, journal, client_id):
        self._journal = journal
        self._client_id = client_id
        self._address = self._copy = -1
        self._serial = 0
        self.mode = PERSISTENT
        self.most = self.below = 0  # which messages can have left: see outbound
        self.next_unproven = self.unproven = 0  # which Message IDs are not proven free: see foreign
        self.stale = False  # something of this has changed since write()
        self.lost = False  # this start found that the record is gone
        if journal:
            if 2 * journal.cost(_FORM_SIZE + len(client_id)) > journal.reserve:
                raise ValueError("client_id: %d bytes are too many for a journal of this size" % len(client_id))
            self._find()

    @property
    def has_session(self):
        """True if the journal knows its session."""
        return self._address >= 0

    def _find(self):
        journal = self._journal
        at = journal.scan(SESSION, -1)
        while at >= 0:
            self._read(at, journal.found_len)
            at = journal.scan(SESSION, at)
        if not self.has_session and (journal.damaged > 1 or self._had_connection()):
            # Both copies were damaged, perhaps: every message can have left, and none is given up.
            self.lost = True
            self.mode = UNSURE
            self.most = 65535
            self.below = journal.next_seq
        self.stale = self.lost or self.has_session != (self._copy >= 0)

    def _had_connection(self):
        # True if a message was accepted with a connection: then there was a record.
        journal = self._journal
        first = bytearray(1)
        at = journal.scan(OUT, -1)
        while at >= 0:
            journal.read(at, 0, first)
            if first[0] & DUP:
                return True
            at = journal.scan(OUT, at)
        return False

    def _read(self, at, n):
        body = bytearray(n)
        self._journal.read(at, 0, body)
        if n < _FORM_SIZE or body[_FORM_SIZE:] != self._client_id:
            raise ValueError("the journal serves another client id: use that one, or format the journal")
        serial = body[0] >> 4
        if self.has_session and serial == self._serial and self._copy < 0:
            self._copy = at
            return
        if self.has_session and (serial - self._serial & 15) > 8:
            self._journal.mark(at, DONE)  # an older one: power was cut before it was marked
            return
        self._end(self._address)
        self._end(self._copy)
        self._copy = -1
        self._address = at
        self._serial = serial
        self.mode = body[0] & 3
        _, self.most, self.below, self.next_unproven, self.unproven = struct.unpack_from(_FORM, body, 0)

    def write(self, most):
        """Makes it durable: a new copy before the old ones are done, then the second one. most: how many messages can
        have left. Raises OSError if flash fails."""
        journal = self._journal
        self.stale = False
        self._serial = self._serial + 1 & 15
        self.most = min(most, 65535)
        body = struct.pack(
            _FORM, self.mode | self._serial << 4, self.most, self.below, self.next_unproven, self.unproven
        )
        body += self._client_id
        try:
            address = journal.append(SESSION, 0, body, len(body))
        except OutboxFull as e:
            self.stale = True
            raise OSError(ENOBUFS, str(e))
        old = self._address  # where it is now: append() may have moved it
        self._address = address
        journal.commit()
        self._end(old)
        self._end(self._copy)
        self._copy = -1
        try:
            self._copy = journal.append(SESSION, 1, body, len(body))  # 1: it is not a record that was moved
        except OutboxFull:
            self.stale = True  # one will do until there is space
        journal.commit()

    def _end(self, address):
        if address >= 0:
            self._journal.mark(address, DONE)

    def moved(self, old, new):
        """The journal copied a record to another address."""
        if self._address == old:
            self._address = new
        if self._copy == old:
            self._copy = new
