# When something has to be sent so that both ends know of each other, and when an answer is late. Any byte that arrives
# shows that the broker is alive.

from .compat import const, passed, ticks_add, ticks_diff

_PACE = const(256)  # bytes of a long message, at least, in ten time-outs
_MOST = const(100)  # time-outs for an answer behind long messages


class KeepAlive:
    """A PINGREQ is due after `interval` ms without a byte in one direction (0: never). An answer may take `timeout`
    ms."""

    def __init__(self, interval, timeout_ms):
        self.interval = interval
        self._timeout_ms = timeout_ms
        self.begin(0)

    def begin(self, now):
        """A connection begins."""
        self.requested = False  # the application wants a PINGREQ
        self.sent_at = self._received_at = now  # when a packet left, and when bytes came
        self._ping_at = -1  # when the PINGREQ was sent that is unanswered
        self._received = 0  # bytes of a long message since _long_at
        self._long_at = now

    def bytes_received(self, n, now, long):
        """n bytes arrived, of a message longer than the buffer if `long`."""
        self._received_at = now
        if long:
            self._received += n
            if self._received >= _PACE:
                self._received = 0
                self._long_at = now

    @property
    def pinging(self):
        """True while a PINGREQ is unanswered, or waits to be sent."""
        return self.requested or self._ping_at >= 0

    def ping_due(self, now):
        """True if a PINGREQ is to be sent now. It is also sent when only the broker was silent: so a dead link is
        noticed."""
        if self.requested:
            return True
        interval = self.interval
        if not interval or self._ping_at >= 0:
            return False
        return passed(now, self.sent_at, interval) or passed(now, self._received_at, interval)

    def ping_sent(self, now):
        self.requested = False
        self._ping_at = now

    def ping_answered(self):
        self._ping_at = -1

    def paused(self, since, now):
        """From `since` until now the application had its turn: an answer that came was not read."""
        if self._ping_at >= 0:
            self._ping_at = ticks_add(now, -max(0, ticks_diff(since, self._ping_at)))

    def overdue(self, now):
        """True if the time for a PINGRESP has passed [MQTT-3.12.4-1]."""
        return self._ping_at >= 0 and not self.left(now, self._ping_at)

    def left(self, now, start):
        """Returns how many ms are left for an answer that is waited for since `start`, 0: none. Each byte that arrives
        gives it the whole time-out again, because a broker that sends something else is alive. In all it has ten
        time-outs, since the broker has to answer some time; a long message in front of the answer gives it ten more
        with every _PACE bytes, a hundred at most."""
        bound = self._long_at if ticks_diff(self._long_at, start) > 0 else start
        last = self._received_at if ticks_diff(self._received_at, start) > 0 else start
        if (
            passed(now, last, self._timeout_ms)
            or passed(now, bound, 10 * self._timeout_ms)
            or passed(now, start, _MOST * self._timeout_ms)
        ):
            return 0
        return self._timeout_ms - ticks_diff(now, last)
