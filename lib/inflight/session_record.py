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


from .states import PERSISTENT


class SessionRecord:
    """The SESSION record of `journal` (None: there is none) for the client `client_id` (bytes). There are two copies of
    it, since all messages depend on it. Raises ValueError if the journal serves another client id [MQTT-3.1.3-2], or is
    too small for this one."""

    def __init__(self, journal, client_id):
        self.journal = journal
        self.client_id = client_id
        self.address = self.copy = -1
        self.serial = 0
        self.mode = PERSISTENT
        self.most = self.below = 0  # which messages can have left: see outbound
        self.next_unproven = self.unproven = 0  # which Message IDs are not proven free: see foreign
        self.stale = False  # something of this has changed since write()
        self.lost = False  # this start found that the record is gone
        if journal:
            from .session_store import find

            find(self)

    @property
    def has_session(self):
        """True if the journal knows its session."""
        return self.address >= 0

    def write(self, most):
        """Makes it durable. most: how many messages can have left. Raises OSError if flash fails."""
        from .session_store import write

        write(self, most)

    def moved(self, old, new):
        """The journal copied a record to another address."""
        if self.address == old:
            self.address = new
        if self.copy == old:
            self.copy = new

    def can_spare(self, at):
        """The journal has no space to copy the record at address `at`. True if it is one of two copies of this: one
        will do until there is space."""
        if self.copy < 0 or at not in (self.address, self.copy):
            return False
        if at == self.address:
            self.address = self.copy
        self.copy = -1
        self.stale = True
        return True
