"""Which messages of a device need not arrive: what had left, or may have, may be given up with a clean session; what
never left may not. Judged from calls, callbacks and what the client offers to its link."""


class Excused:
    """`numbers`: of the messages that were given up."""

    def __init__(self):
        self.numbers = set()
        self._open = {}  # Message ID: number, of what is not completed, in the order of publish()
        self._sent = set()  # numbers that left, or of which a life after a restart cannot know that they did not
        self._reach = 0  # what has a higher number had no connection yet
        self._window = 0  # the largest max_inflight of all lives
        self._ends = False  # the next connection may end a session

    def doubted(self, number):
        """publish() did not return."""
        self.numbers.add(number)

    def accepted(self, mid, number):
        self._open[mid] = number

    def may_leave(self, newest):
        """There is a connection, and this is the newest message."""
        self._reach = newest

    def offered(self, number):
        """The client wants to write this message."""
        self._sent.add(number)

    def completed(self, mid):
        self._sent.discard(self._open.pop(mid, None))

    def life_begun(self, is_pending, window, clean):
        """After a restart the client has to take as many for sent as can have been in flight."""
        pending = [number for mid, number in self._open.items() if number <= self._reach and is_pending(mid)]
        self._sent.update(pending[: self._window])
        self._window = max(self._window, window)
        self._ends = self._ends or clean

    def session_begun(self, is_pending, clean):
        """A connection stands: what its CONNACK ended is given up by now."""
        for mid in [mid for mid in self._open if not is_pending(mid)]:
            number = self._open.pop(mid)
            if self._ends and number in self._sent:
                self.numbers.add(number)
        self._sent.intersection_update(self._open.values())
        self._ends = clean
