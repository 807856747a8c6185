# What a message in the journal is at level 5: mqtt5 tells how the journal keeps it.

from errno import ENOBUFS
from struct import pack_into

import inflight.packet as packet

from ..compat import const, ticks_add, ticks_diff
from ..journal.records import OUT, RELEASED
from .cursor import digits_for, digits_in

_EXPIRY = const(2)  # the property
_STAMP = const(4)  # bytes
_START = 7  # bytes of a record up to the length of the topic, at most


def _start(journal, address):
    # (its first bytes, where they begin, bytes of the PUBLISH)
    start = bytearray(_START)
    at = journal.read(address, 0, start)
    return start, at, packet.length(start, at)


def has_expiry(journal, address, size):
    """True if the properties of the record at `address`, a PUBLISH of `size` bytes with a trailer, have an expiry."""
    first = bytearray(1)
    journal.read(address, size, first)
    return first[0] == _EXPIRY


def _properties(journal, address, size):
    # Their bytes.
    trailer = journal.found_len - size
    return trailer - _STAMP if trailer and has_expiry(journal, address, size) else trailer


def packet_size(journal, address):
    """Returns the size of the packet that the record at `address` becomes; found_len is that of the record."""
    _, _, size = _start(journal, address)
    n = _properties(journal, address, size)
    digits = digits_in(size)
    return size + 1 + n - digits + digits_for(size - digits + n)


def space_needed(journal, address):
    """Returns how many bytes of a send buffer the packet needs that the record at `address` becomes: what is in front
    of its payload, twice its fixed header."""
    start, at, size = _start(journal, address)
    n = _properties(journal, address, size)
    digits = digits_in(size)
    topic = at + 1 + digits
    return 6 + n + digits_for(size - digits + n) + (start[topic] << 8 | start[topic + 1])


def check_space(session, space):
    """Raises ValueError if a message needs more than the `space` bytes of the send buffer: a life before had a larger
    one, or another level."""
    journal = session.journal

    at = journal.scan(OUT, -1)
    while at >= 0:
        needed = space_needed(journal, at)
        if not journal.found_state & RELEASED and needed > space and session.is_publish(at):
            raise ValueError("buffer: %d bytes at least, for a message in the journal" % (2 * needed))
        at = journal.scan(OUT, at)


# --- message expiry ---
# There is no clock. A device without power does not know how long, so ages are counted in the journal's
# seconds, which only grow: while the client runs, and by what slept() is told. They are written behind each message
# that has an expiry; a mount goes on from the highest. So a message may live too long, and too short by
# less than the second in which it was accepted. The seconds end at 4,294,967,295, 136 years: what was accepted before
# has aged by then; what is accepted then does not age, until a mount finds no message with an expiry, and begins at 0.
#
#   a message that has expired        is
#   and can not have been sent        dropped, and counted
#   and may have been sent            sent with an expiry of 1 s: its handshake goes on [MQTT5-4.3.3-7] [MQTT5-4.4.0-1]

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

        journal = session.journal
        session.clear()  # one of them may stand there
        self.due = _LAST
        at = journal.scan(OUT, -1)
        while at >= 0:
            expires = _times(journal, at)[1]
            if 0 <= expires <= self.value and session.is_unsent(at):
                session.drop_expired_message(at)
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


# --- sending from the journal ---

_LONGEST_TRAILER = const(131)  # bytes of a trailer


def resend(session, address, dup):
    """Puts the PUBLISH of the record at `address` into the buffer: reads it behind a margin; then its head moves up and
    leaves space for the properties. Returns how many bytes are there, 0: it has expired. Raises OSError."""
    session.forget()
    session._accepted = -1
    buf = session.out
    journal = session.journal
    journal.check(address)
    trailer = journal.found_len
    old = session._behind_margin
    at = journal.read(address, 0, old)
    size = packet.length(old, at)
    trailer -= size
    session.check_message(old[at], size)
    data = b""
    k = n = 0
    if trailer:
        data = session._read_trailer = session._read_trailer or bytearray(_LONGEST_TRAILER)
        k = journal.read(address, size, data)
        n = trailer - _STAMP if data[k] == _EXPIRY else trailer
    digits = digits_in(size)
    topic = at + 1 + digits
    head = 5 + digits + (old[topic] << 8 | old[topic + 1])  # bytes in front of the payload
    remaining = size - digits + n
    growth = 1 + n + digits_for(remaining) - digits
    if growth > len(buf) - len(old) or head > len(old):
        # A wide margin leaves less space for the topics of other messages, so it is the one that this one needs.
        if growth + head > len(buf):
            raise OSError(ENOBUFS, "topic and properties of a message do not fit the buffer: choose a larger one")
        old = session._behind_margin = buf[growth:]
        at = journal.read(address, 0, old)
        topic = at + 1 + digits
    # Byte i of `old` is byte i + margin of `buf`.
    margin = len(buf) - len(old)
    payload = at + head
    block = payload + margin - 1 - n
    first = old[at] | 8 if dup else old[at] & 0xF7
    start = at + margin - growth
    packet.begin(buf, first, remaining, start)
    for i in range(topic, payload):
        buf[i + margin - 1 - n] = old[i]
    buf[block] = n
    for i in range(n):
        buf[block + 1 + i] = data[k + i]
    if not session.is_fresh(block, data, k + n, dup):
        return 0  # as if nobody had asked
    end = min(at + size, len(old))
    session.view = buf
    session.out_at = start
    session.out_address = address
    session._out_offset = end - at
    session.out_left = at + size - end
    session.rest = None
    return end + margin - start
