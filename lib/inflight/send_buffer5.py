# Level 5 of the send buffer. The journal keeps a PUBLISH as level 4 has it, without properties; here it gets them.

from errno import ENOBUFS

import inflight.packet as packet

from .compat import const
from .send_buffer import SendBuffer

_LONGEST = const(268435460)  # packet there is
_MARGIN = const(2)  # so many bytes longer a PUBLISH of level 4 becomes, at most


def _digits(n):
    # How many bytes the remaining length n takes.
    return 1 if n < 128 else 2 if n < 16384 else 3 if n < 2097152 else 4


def size_of(n):
    """Returns the size of the packet that a PUBLISH of n bytes at level 4 becomes."""
    digits = 1 if n < 130 else 2 if n < 16387 else 3 if n < 2097156 else 4
    return n + 1 - digits + _digits(n - digits)


class SendBuffer5(SendBuffer):
    """A SendBuffer of level 5. The broker takes packets of `maximum` bytes, messages of `maximum_qos`, and retained
    ones if `retain_available`. lowered: the PUBLISH that was loaded last asks for more; it is sent as the broker takes
    it."""

    block = b"\0"

    def __init__(self, buf, journal):
        super().__init__(buf, journal)
        self._behind_margin = self.buf[_MARGIN:]
        self._remaining = 0  # remaining length at level 4 of the PUBLISH that stands here whole, and is to be accepted
        self.lowered = False
        self.limit()

    def limit(self, maximum=_LONGEST, maximum_qos=2, retain_available=True):
        """The broker takes no more than this."""
        self.maximum = maximum
        self.maximum_qos = maximum_qos
        self.retain_available = retain_available

    def publish(self, name, payload, qos, retain, mid):
        """As SendBuffer.publish(). At QoS 1 and 2 the head is one of level 4, for the journal, and `rest` is the
        payload; accepted() makes it one of level 5. Raises ValueError if the broker takes no such packet."""
        n = super().publish(name, payload, qos, retain, mid)
        if self.size > self.maximum:
            raise ValueError("packet of %d bytes, the broker takes %d" % (self.size, self.maximum))
        if not qos:
            return n
        remaining = len(name) + 4 + len(payload)
        self._remaining = remaining if self.rest is None else 0
        self.rest = payload
        if _digits(remaining) == _digits(remaining + 1):
            self.size -= 1
            packet.begin(self.buf, self.buf[0], remaining)
            return self._start - 1
        # A head of level 4 would begin behind that of level 5: this one is read from the journal when it is sent.
        self._remaining = 0
        self.forget()
        n = packet.publish(self.buf, name, len(payload), qos, retain, mid)
        self.size = n + len(payload)
        return n

    def accepted(self, address):
        if self._remaining:
            self.rest = None
            self.size += 1
            packet.begin(self.buf, self.buf[0], self._remaining + 1)
        super().accepted(address)

    def load(self, address, dup):
        n = super().load(address, dup) if address == self._accepted else self._load(address, dup)
        buf = self.buf
        first = buf[self.at]
        wanted = first
        if first >> 1 & 3 > self.maximum_qos:
            first ^= 6  # QoS 2 becomes 1 [MQTT5-3.2.2-11]
        if not self.retain_available:
            first &= 0xFE  # [MQTT5-3.2.2-14]
        self.lowered = first != wanted
        if self.lowered:
            buf[self.at] = first
            self.forget()
        return n

    def _load(self, address, dup):
        # Reads the record behind a margin; then the head moves up, and leaves space for the properties.
        self.forget()
        self._accepted = -1
        self.journal.check(address)
        old = self._behind_margin
        at = self.journal.read(address, 0, old)
        size = packet.length(old, at)
        topic = at + 2
        while old[topic - 1] & 0x80:
            topic += 1
        payload = topic + 4 + (old[topic] << 8 | old[topic + 1])
        if payload > len(old):
            raise OSError(ENOBUFS, "the topic of a message does not fit the buffer")
        end = min(at + size, len(old))
        self._address = address
        self._offset = end - at
        self._left = at + size - end
        self.rest = None
        # Byte k of `old` is byte k + _MARGIN of `buf`.
        buf = self.buf
        remaining = at + size - topic + 1
        first = old[at] | 8 if dup else old[at] & 0xF7
        self.view = buf
        self.at = topic + _MARGIN - 2 - _digits(remaining)
        packet.begin(buf, first, remaining, self.at)
        for k in range(topic, payload):
            buf[k + _MARGIN - 1] = old[k]
        buf[payload + _MARGIN - 1] = 0
        return end + _MARGIN - self.at
