# Level 5 of the send buffer. The journal keeps a PUBLISH as level 4 has it; behind it, as a trailer, its properties
# without their length, and if they begin with an expiry interval the journal's seconds (see expiry5) when it was
# accepted, 4 bytes. Levels 3 and 4 send the PUBLISH without them.
#
# A packet of level 5 as it stands in the buffer, and what the journal gets of it:
#
#   fixed header   topic, Message ID   length of properties, properties   payload
#   (level 4's)    head                                                   tail       trailer

import inflight.packet as packet

from .compat import const
from .decoder5 import digits_for, digits_in
from .send_buffer import SendBuffer

_EXPIRY = const(2)  # the property
_STAMP = const(4)  # bytes
_GROWTH = const(2)  # bytes of length that a packet without properties has more than its record, at most


class SendBuffer5(SendBuffer):
    """A SendBuffer of level 5. The broker takes packets of `maximum` bytes, messages of `maximum_qos`, and retained
    ones if `retain_available`. lowered: the PUBLISH that was loaded last asks for more; it is sent as the broker takes
    it. clock: Seconds, once a message has an expiry."""

    no_properties = b"\0"

    def __init__(self, buf, journal):
        super().__init__(buf, journal)
        self.block = self.no_properties
        self.clock = None
        self._properties = None
        self._do_attach = self._do_load = None  # functions that not every client needs, once they are loaded
        self._trailer = b""
        self._behind_margin = self.buf[_GROWTH:]
        self._read_trailer = None
        # Of the last PUBLISH of QoS 1 or 2: where its properties begin, and its fixed header of level 4;
        self._block = self._shift = 0
        self._whole = 0  # its size at level 5; meanwhile `size` is what the journal takes
        self._remaining = 0  # its remaining length if it stands here whole, and is to be accepted
        self.lowered = False
        self.limit()

    def limit(self, maximum=packet.LONGEST, maximum_qos=2, retain_available=True):
        """The broker takes no more than this."""
        self.maximum = maximum
        self.maximum_qos = maximum_qos
        self.retain_available = retain_available
        self._lowers = maximum_qos < 2 or not retain_available

    # --- from the application ---

    def attach(self, properties, now):
        """The next PUBLISH has these properties, None: has none. Raises ValueError."""
        if self.clock:
            self.clock.tick(now)
        if properties is not self._properties or (properties and properties.expiry):
            if not self._do_attach:
                from .properties5 import attach

                self._do_attach = attach
            self._do_attach(self, properties, now)

    def publish(self, name, payload, qos, retain, mid):
        """As SendBuffer.publish(). At QoS 1 and 2 the fixed header is that of level 4, for the journal, and `rest` is
        the payload; accepted() makes it one of level 5. Raises ValueError if the broker takes no such packet."""
        self.size = self._whole
        n = super().publish(name, payload, qos, retain, mid)
        whole = self._whole = self.size
        if whole > self.maximum:
            self.forget()  # repeat() does not ask
            raise ValueError("packet of %d bytes, the broker takes %d" % (whole, self.maximum))
        if qos:
            block = len(self.block)
            shift = 0
            if whole < 130:
                longer = whole - 2
                self.buf[1] = longer - block
            else:
                longer = whole - 1 - digits_in(whole)
                shift = digits_for(longer) - digits_for(longer - block)
                packet.begin(self.buf, self.buf[0], longer - block, shift)
            self._block = self._start - block
            self._shift = shift
            self._remaining = longer if self.rest is None else 0
            self.rest = payload
            self.size = whole - block - shift + len(self._trailer)
        return n

    def repeat(self, payload, properties):
        return super().repeat(payload, properties) if properties is self._properties else 0

    def append(self, mid, dup):
        return self._append(mid, dup, self._block, self.rest, self._trailer, self._shift)

    def accepted(self, address):
        if self._remaining:
            self.rest = None
            self.size = self._whole
            if self._remaining < 128:
                self.buf[1] = self._remaining
            else:
                packet.begin(self.buf, self.buf[self._shift], self._remaining)
        super().accepted(address)

    # --- to the broker ---

    def load(self, address, dup):
        """As SendBuffer.load(). Returns 0 if the message has expired, and cannot have been sent before."""
        buf = self.buf
        if address == self._accepted:
            n = super().load(address, dup)
            block = self._block
            if buf[block] and not self.is_fresh(block, self._trailer, len(self._trailer) - _STAMP, dup):
                return 0
        else:
            if not self._do_load:
                from .resending5 import load

                self._do_load = load
            n = self._do_load(self, address, dup)
        if self._lowers:
            first = wanted = buf[self.at]
            if first >> 1 & 3 > self.maximum_qos:
                first ^= 6  # QoS 2 becomes 1 [MQTT5-3.2.2-11]
            if not self.retain_available:
                first &= 0xFE  # [MQTT5-3.2.2-14]
            if first != wanted:
                self.lowered = True
                buf[self.at] = first
                self.forget()
        return n

    def is_fresh(self, block, data, stamp, dup):
        """False if the message has expired, and cannot have been sent: its properties are at buf[block], the seconds of
        their expiry, if they have any, at data[stamp]."""
        buf = self.buf
        return not buf[block] or buf[block + 1] != _EXPIRY or self.clock.count_down(buf, block + 2, data, stamp, dup)
