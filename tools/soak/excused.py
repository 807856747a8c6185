"""Tracks which messages of a device need not arrive. A clean session may discard messages that were sent, or that may
have been sent, but not those that were never sent. Knows the client's calls, callbacks and sent data only."""


class Excused:
    """`numbers`: the messages that need not arrive."""

    def __init__(self):
        self.numbers = set()
        self._open = {}  # Message ID: number, until it is completed, in the order of publish()
        self._sent = set()  # sent, or perhaps sent before a restart
        self._reach = 0  # there was no connection since messages with a higher number were published
        self._window = 0  # the largest max_inflight since the first start
        self._ends = False  # the next connection may end a session

    def doubted(self, number):
        """Power was cut within publish()."""
        self.numbers.add(number)

    def accepted(self, mid, number):
        self._open[mid] = number

    def may_leave(self, newest):
        """The client is connected, and `newest` is the newest message."""
        self._reach = newest

    def offered(self, number):
        """The client sends this message."""
        self._sent.add(number)

    def completed(self, mid):
        self._sent.discard(self._open.pop(mid, None))

    def life_begun(self, is_pending, window, clean):
        """The client starts. It must assume that as many messages were sent as can have been in flight."""
        pending = [number for mid, number in self._open.items() if number <= self._reach and is_pending(mid)]
        self._sent.update(pending[: self._window])
        self._window = max(self._window, window)
        self._ends = self._ends or clean

    def session_begun(self, is_pending, clean):
        """The client is connected: it has discarded the messages of a session that the CONNACK ended."""
        for mid in [mid for mid in self._open if not is_pending(mid)]:
            number = self._open.pop(mid)
            if self._ends and number in self._sent:
                self.numbers.add(number)
        self._sent.intersection_update(self._open.values())
        self._ends = clean
