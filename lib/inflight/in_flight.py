# The table of what is in flight in one direction: a row for each message, in the order in which they came.

from array import array


class InFlight:
    """Rows of Message ID, address of its record in the journal, and state; as many as _allocate() says, at most."""

    rows = 0

    def _allocate(self, n):
        self.mids = array("H", bytes(2 * n))
        self.addresses = array("I", bytes(4 * n))
        self.states = bytearray(n)

    def _add(self, mid, address, state):
        i = self.rows
        self.mids[i] = mid
        self.addresses[i] = address
        self.states[i] = state
        self.rows = i + 1

    def remove(self, i):
        """Row i is over; those behind it move up."""
        self.rows -= 1
        for k in range(i, self.rows):
            self.mids[k] = self.mids[k + 1]
            self.addresses[k] = self.addresses[k + 1]
            self.states[k] = self.states[k + 1]

    def row(self, mid):
        """Returns the row of this Message ID, -1 if there is none."""
        for i in range(self.rows):
            if self.mids[i] == mid:
                return i
        return -1

    def row_at(self, address):
        """Returns the row of the record at `address`, -1 if there is none."""
        for i in range(self.rows):
            if self.addresses[i] == address:
                return i
        return -1

    def moved(self, old, new):
        """The journal copied a record to another address."""
        i = self.row_at(old)
        if i >= 0:
            self.addresses[i] = new
