# The half of the client's buffer that sends. It holds one packet at a time; of a PUBLISH that is longer it holds the
# beginning, and the rest is written in pieces: from the caller's payload at QoS 0, from the journal above.
#
# A device publishes to the same topic again and again. So the last PUBLISH stays there until something else is put
# there: a message to the same topic, of the same length, only needs its payload and its Message ID. Likewise a
# message that was accepted just now is sent without reading it from the journal.

from errno import ECONNABORTED
from struct import pack_into

import inflight.packet as packet

from .compat import copy_format
from .records import OUT


class SendBuffer:
    """Packets in `buf`; those of QoS 1 and 2 are records of `journal`. `view` and `at` tell where the bytes begin that
    are to be written."""

    # Properties of level 5: of a packet that has none; those in front of the payload.
    no_properties = block = b""

    def __init__(self, buf, journal):
        self.buf = buf
        self.journal = journal
        self.name = None  # the topic (bytes) whose PUBLISH is kept for the next message
        self.size = 0  # of the whole PUBLISH
        self.clear()

    def clear(self):
        """What is there is not needed any more."""
        self.view = self.buf
        self.at = 0
        self.rest = None  # the payload of which nothing is in buf
        self.ready = 0  # bytes in buf that wait to be written: a packet was begun
        self.left = 0  # bytes of that packet behind buf
        self._offset = 0  # of the first of them in the record at _address
        self._address = -1
        self._accepted = -1  # address of the record of the PUBLISH in buf
        self.forget()

    def forget(self):
        """The PUBLISH that is there is not used for the next message."""
        self._first = 0  # its first byte, with its payload at _start
        self._start = 0
        self._mid_at = 0  # where its Message ID is
        self._form = None

    def publish(self, name, payload, qos, retain, mid):
        """Puts a PUBLISH there, name is bytes. Returns how many bytes of it are in buf; `rest` is its payload if that
        does not fit, or None. Raises ValueError."""
        buf = self.buf
        n = len(payload)
        first = 0x30 | qos << 1 | (1 if retain else 0)
        start = self._start
        self._accepted = -1
        self.rest = None
        if first == self._first and n == self.size - start and name is self.name:
            packet.copy(buf, start, payload)
            if qos:
                i = self._mid_at
                buf[i] = mid >> 8
                buf[i + 1] = mid & 0xFF
            return self.size
        self._first = 0
        start = self._start = packet.publish(buf, name, n, qos, retain, mid, self.block)
        self._mid_at = start - len(self.block) - 2
        self.size = start + n
        if self.size > len(buf):
            self.rest = payload
            return start
        packet.copy(buf, start, payload)
        self._form = copy_format(n, len(buf) - start)
        if self._form and name is self.name:
            self._first = first
        return self.size

    def repeat(self, payload, properties):
        """Puts a payload into the PUBLISH of QoS 0, not retained, that is there. Returns the size of the packet, 0 if
        there is none of that length; at level 5 of these properties, too."""
        if self._first != 0x30 or payload.__class__ is not bytes or len(payload) != self.size - self._start:
            return 0
        pack_into(self._form, self.buf, self._start, payload)
        return self.size

    def append(self, mid, dup):
        """The PUBLISH that is there becomes a record of the journal, with this DUP. Returns its address."""
        return self._append(mid, dup, self._start if self.rest else self.size, self.rest or b"", b"", 0)

    def _append(self, mid, dup, n, tail, trailer, at):
        buf = self.buf
        first = buf[at]
        if first >> 4 != packet.PUBLISH or packet.length(buf, at) != n - at + len(tail):
            raise OSError(ECONNABORTED, "the buffer was changed")  # an operation came in between
        buf[at] = first | dup
        address = self.journal.append(OUT, mid, buf, n, tail, trailer, at)
        buf[at] = first
        return address

    def accepted(self, address):
        """The PUBLISH that is there is the record at `address` now."""
        self._accepted = address if self.rest is None else -1
        self.rest = None

    def send(self, n):
        """n bytes of buf are to be written next, then `rest`."""
        self.ready = n
        if self.rest is not None:
            self.left = len(self.rest)

    def load(self, address, dup):
        """Puts the PUBLISH there that is the record at `address`, with this DUP. Returns how many bytes of it are to be
        written. Raises OSError if the record was damaged."""
        buf = self.buf
        self.view = buf
        self.at = at = 0
        n = self.size
        if address != self._accepted:
            self.forget()
            self.journal.check(address)
            at = self.at = self.journal.read(address, 0, buf)
            n = packet.length(buf, at)
            self.check_message(buf[at], n)
            if at + n > len(buf):
                self.rest = None
                self._address = address
                self._offset = len(buf) - at
                self.left = n - self._offset
                n = self._offset
        if dup:
            buf[at] |= 8
            self.forget()
        else:
            buf[at] &= 0xF7
        self._accepted = -1
        return n

    def check_message(self, first, n):
        """Raises OSError unless the record that was read last is a PUBLISH of QoS 1 or 2 and n bytes, whose first byte
        is `first`: who recovers drops it."""
        if first >> 4 != packet.PUBLISH or first & 6 in (0, 6) or n > self.journal.found_len:
            self.journal._fail("a record of the journal is no message")

    def next(self):
        """Returns how many bytes of the packet that was begun are to be written, 0 if there are no more."""
        self.view = self.buf
        self.at = 0
        n = self.ready
        if n:
            self.ready = 0
            return n
        n = self.left
        if n and self.rest is not None:
            self.view = self.rest
            self.rest = None
        elif n:
            self.at = self.journal.read(self._address, self._offset, self.buf)
            n = min(n, len(self.buf) - self.at)
            self._offset += n
        self.left -= n
        return n

    def moved(self, old, new):
        """The journal copied a record to another address."""
        if self._accepted == old:
            self._accepted = new
        if self._address == old:
            self._address = new
