# Message expiry without a clock. A device without power does not know how long, so ages are counted in the journal's
# seconds, which only grow: while the client runs, and by what slept() is told. They are written behind each message
# that has an expiry; a mount goes on from the highest. So a message may live too long, and too short by
# less than the second in which it was accepted. The seconds end at 4,294,967,295, 136 years: what was accepted before
# has aged by then; what is accepted then does not age, until a mount finds no message with an expiry, and begins at 0.
#
#   a message that has expired        is
#   and can not have been sent        dropped, and counted
#   and may have been sent            sent with an expiry of 1 s: its handshake goes on [MQTT5-4.3.3-7] [MQTT5-4.4.0-1]

from struct import pack_into

import inflight.counters as counters
import inflight.packet as packet

from ..compat import const, ticks_add, ticks_diff
from ..journal.records import OUT
from .stored5 import has_expiry

_MOST_BESIDE = const(140)  # bytes of a record beside topic and payload
_LAST = 0xFFFFFFFF  # four bytes of the journal


class Seconds:
    """The journal's seconds, from `value` on; due: no message expires before that."""

    def __init__(self, value):
        self.value = value
        self.due = 0
        self._since = None  # ticks when value was what it is

    def tick(self, now):
        """Counts up to `now`, ticks in ms. Returns the value."""
        ms = 0 if self._since is None else ticks_diff(now, self._since)
        if self._since is None or ms < 0:  # more than half a period of the ticks has passed, nobody knows how much
            self._since = now
        elif ms >= 1000:
            self.add(ms // 1000)
            self._since = ticks_add(self._since, ms // 1000 * 1000)
        return self.value

    def add(self, seconds):
        """So many have passed."""
        self.value = min(self.value + seconds, _LAST)

    def make_space(self, session, size):
        """A message of `size` bytes of topic and payload is to be accepted: if the journal is full, those that have
        expired go."""
        if self.due <= self.value and not session.journal.fits(OUT, size + _MOST_BESIDE):
            self.drop_expired(session)

    def drop_expired(self, session):
        """Drops the messages that have expired, and can not have been sent."""
        from ..session.given_up import is_unsent

        journal = session.journal
        session.clear()  # one of them may stand there
        self.due = _LAST
        at = journal.scan(OUT, -1)
        while at >= 0:
            expires = _times(journal, at)[1]
            if 0 <= expires <= self.value and is_unsent(session, at):
                expired(session, at)
            elif expires >= 0:
                self.due = min(self.due, max(expires, self.value + 1))
            at = journal.scan(OUT, at)

    def count_down(self, buf, i, stamps, k, dup):
        """buf[i:] is the expiry interval of a message that was accepted at stamps[k:]: makes it what is left. Returns
        False if nothing is, unless `dup`: the message may have been sent before."""
        left = _number(buf, i) - self.value + _number(stamps, k)
        if left < 1 and not dup:
            return False
        pack_into(">I", buf, i, max(1, left))
        return True


def _number(buf, i):
    return buf[i] << 24 | buf[i + 1] << 16 | buf[i + 2] << 8 | buf[i + 3]


def newest(journal):
    """Returns the highest seconds that a message was accepted at, -1 if none has an expiry."""
    found = -1
    at = journal.scan(OUT, -1)
    while at >= 0:
        found = max(found, _times(journal, at)[0])
        at = journal.scan(OUT, at)
    return found


def _times(journal, at):
    # (seconds when the message of the record at `at` was accepted, when it expires); (-1, -1): never.
    trailer = bytearray(9)
    start = journal.read(at, 0, trailer)
    size = packet.length(trailer, start)
    n = journal.found_len - size
    if not n or not has_expiry(journal, at, size):
        return -1, -1
    start = journal.read(at, size, trailer)
    interval = _number(trailer, start + 1)
    accepted = _number(trailer, journal.read(at, size + n - 4, trailer))
    return accepted, accepted + interval


def expired(session, address):
    """Drops the message of the record at `address`."""
    from ..session.given_up import give_up

    give_up(session, address)
    session.count[counters.DROPPED] += 1
    session.count[counters.EXPIRED] += 1
