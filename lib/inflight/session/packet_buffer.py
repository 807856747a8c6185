# The client's packet buffer: one half receives, one sends. Bytes alone, of MQTT 3.1.1 (level 4) and 3.1 (level 3): no
# sockets, no time, no session state; nothing here allocates on the way of a PUBLISH or an acknowledgement.
#
# The half that sends holds one packet at a time; of a PUBLISH that is longer it holds the beginning, and the rest is
# written in pieces: from the caller's payload at QoS 0, from the journal above.
#
# A device publishes to the same topic again and again. So the last PUBLISH stays there until something else is put
# there: a message to the same topic, of the same length, only needs its payload and its Message ID. Likewise a
# message that was accepted just now is sent without reading it from the journal.

from errno import ECONNABORTED
from struct import pack_into

import inflight.packet as packet

from ..compat import const, copy, copy_format
from ..journal.records import OUT
from ..packet import MALFORMED, PUBLISH, ProtocolError, valid

_SPARE = const(32)
_NEVER = const(-0x10000000)


class PacketBuffer:
    """Packets in the two halves of `buffer`; those of QoS 1 and 2 are records of `journal`.

    Receiving: it finds the packets in a byte stream, incrementally, without copying them. Read at most `space` bytes
    into `into`, say so with got(n), then call next_packet() until it returns 0. A PUBLISH longer than the buffer comes
    in pieces: `offset` counts what came before this piece, `left` what is still to come. What the fields point at stays
    valid until the next call of got().

    Sending: `view` and `out_at` tell where the bytes begin that are to be written, next_part() how many."""

    # Remaining length of what a server may send, by type; below 0: it is variable, at least -1 - n; _NEVER: no server
    # may.
    _sizes = (_NEVER, _NEVER, -3, -1, 2, 2, 2, 2, _NEVER, -4, _NEVER, 2, _NEVER, 0, _NEVER, _NEVER)
    # Properties of level 5: of a packet that has none; those in front of the payload.
    no_properties = out_block = b""

    def use(self, buffer, journal, protocol_level=4):
        """It works in `buffer` from now on; the first half receives."""
        self.journal = journal
        self.protocol_level = protocol_level
        half = len(buffer) // 2
        self.buf = memoryview(buffer)[:half]
        # A packet cut in two by the end of a read is completed through this: a view at an
        # offset would be a new object each time.
        self.spare = bytearray(_SPARE)  # free between got() and the next read: for acknowledgements
        self.out = memoryview(buffer)[half:]
        self.name = None  # the topic (bytes) whose PUBLISH is kept for the next message
        self.out_size = 0  # of the whole PUBLISH
        self.forget_received()
        self.clear()

    # --- receiving ---

    def forget_received(self):
        """Forgets everything read: a new connection begins."""
        self.start = self.end = 0
        self._tail = None  # where pieces of a long payload go: behind its topic
        self.into = self.buf
        self.space = len(self.buf)
        self.flags = self.mid = 0
        self.topic = self.topic_len = 0  # index and length; length 0: the topic was too long to keep, `topic` bytes
        self.at = self.n = 0  # index and length of the body, or of this piece of the payload
        self.size = self.left = 0
        self._skip = -1  # bytes of an unkeepable topic still to come, -1: none

    @property
    def offset(self):
        """How much of the payload came before this piece."""
        return self.size - self.left - self.n

    def got(self, n):
        """n bytes were read into `into`."""
        if self.into is self.spare:
            if self.space == _SPARE:
                copy(self.buf, self.end, self.spare)  # all of it: what is behind n bytes is read later
            else:
                for i in range(n):
                    self.buf[self.end + i] = self.spare[i]
        self.end += n

    def _aim(self):
        # Says where the next bytes go.
        if self.start == self.end:
            self.into = self._tail or self.buf
            self.space = len(self.into)
            self.start = self.end = len(self.buf) - self.space
            return
        if self.start and self.end + _SPARE > len(self.buf):
            self._compact()
        self.into = self.spare
        self.space = min(_SPARE, len(self.buf) - self.end)

    def _compact(self):
        self.end = packet.compact(self.buf, self.start, self.end)
        self.start = 0

    def next_packet(self):
        """Returns the type of the next packet or piece of one, 0 if more bytes are needed.
        Raises ProtocolError; the connection is of no use then. [MQTT-4.8.0-1]"""
        kind = self._piece() if self.left or self._skip >= 0 else self._packet()
        if not kind:
            self._aim()
        return kind

    def _packet(self):
        buf = self.buf
        i = self.start
        if i == self.end:
            return 0
        first = buf[i]
        n = shift = 0
        c = 0x80
        while c & 0x80 and shift < 28:
            i += 1
            if i == self.end:
                return 0
            c = buf[i]
            n |= (c & 0x7F) << shift
            shift += 7
        if c & 0x80 or not c and shift > 7 and self.protocol_level > 4:  # not the shortest [MQTT5-1.5.5-1]
            raise ProtocolError("invalid remaining length", MALFORMED)
        i += 1
        kind = first >> 4
        self.flags = first & 15
        if kind == PUBLISH:
            return self._publish(i, n)
        size = self._sizes[kind]
        # At level 3 the flags are "not used", and a re-sent PUBREL has DUP.
        wrong = self.protocol_level > 3 and self.flags != (2 if kind == packet.PUBREL else 0)
        if wrong or n != size and (size >= 0 or n < -1 - size or i - self.start + n > len(buf)):
            return self._refuse(kind, n)
        if i + n > self.end:
            return 0
        self.start = i + n
        if packet.CONNACK < kind < packet.PINGREQ:
            self.mid = self._id(i)
            i += 2
        self.at = i
        self.n = self.start - i
        return kind

    def _refuse(self, kind, n):
        raise self.fault(kind, 0, n)

    def fault(self, *of):
        """Returns the error of a peer's fault: see fault() of that module."""
        from .fault import fault

        return fault(self, *of)

    def _id(self, i):
        mid = self.buf[i] << 8 | self.buf[i + 1]
        if not mid:
            raise ProtocolError("Message ID 0")
        return mid

    # --- a PUBLISH ---

    def _publish(self, i, n):
        return self.decode_publish(i, n)

    def _piece(self):
        return self._decode_piece()

    def decode_publish(self, i, n):
        """A PUBLISH of the remaining length n, which begins at self.buf[i]. Returns what next_packet() does."""
        buf = self.buf
        flags = self.flags
        qos = flags >> 1 & 3
        # At level 3 DUP means nothing at QoS 0.
        if qos == 3 or (flags & 8 and not qos and self.protocol_level > 3):
            raise ProtocolError("invalid flags in PUBLISH", MALFORMED)
        whole = i - self.start + n <= len(buf)
        if i + (n if whole else 2) > self.end:
            return 0
        if n < 2:
            raise ProtocolError("invalid length of PUBLISH", MALFORMED)
        length = buf[i] << 8 | buf[i + 1]
        i += 2
        body = i + length + (2 if qos else 0)
        size = n - 2 - length - (2 if qos else 0)
        if size < 0 or not length:
            raise ProtocolError("invalid length of a topic", MALFORMED)
        self.n = 0
        self.size = size
        if not whole:
            kind = self._start_long(i, length, body)
            if kind >= 0:
                return kind
        if qos:
            self.mid = self._id(body - 2)
        if not valid(buf, i, i + length, True, False):
            raise ProtocolError("invalid topic", MALFORMED)
        self.topic = i
        self.topic_len = length
        self.start = body
        if whole:
            self.at = body
            self.n = size
            self.start += size
            return packet.PUBLISH
        self._tail = buf[body:]
        self.left = size
        return self._piece()

    def _decode_piece(self):
        """The next piece of a payload."""
        if self._skip >= 0:
            if not self._skip_topic():
                return 0
        self.at = self.start
        self.n = min(self.left, self.end - self.start)
        self.left -= self.n
        self.start += self.n
        if not self.left:
            self._tail = None
        return packet.PUBLISH if self.n or not self.size else 0

    # --- one that is longer than the receive buffer ---

    def _start_long(self, i, length, body):
        """A PUBLISH begins, with a topic of that length at self.buf[i], and its payload at `body`. Returns what
        next_packet() does; -1: the topic and the beginning of the payload are there."""
        if body - self.start >= len(self.buf):
            # No space for the payload behind the topic: skip that, the id and payload follow.
            self._skip = self.topic = length
            self.start = i
            self.topic_len = 0
            return self._piece()
        if self.start:
            # The topic has to stay while the pieces come: let it begin the buffer.
            self._compact()
            return self._packet()
        return -1 if body < self.end else 0

    def _skip_topic(self):
        """Skips what has come of a topic that could not be kept. Returns True when the payload follows."""
        k = self._skip
        if k > self.end - self.start:
            k = _whole(self.buf, self.start, self.end) - self.start
        if not valid(self.buf, self.start, self.start + k, True, False):
            raise ProtocolError("invalid topic", MALFORMED)
        self.start += k
        self._skip -= k
        id_len = 2 if self.flags & 6 else 0
        if self._skip or self.end - self.start < id_len:
            return False
        if id_len:
            self.mid = self._id(self.start)
            self.start += 2
        self._skip = -1
        self.left = self.size
        return True

    def _bytes_left(self):
        # How many bytes of the PUBLISH are not gone through, from `start` on; 0: it is none, or its length is not in
        # order.
        if self._skip >= 0:
            return self._skip + (2 if self.flags & 6 else 0) + self.size
        if self.left:
            return self.left
        i = self.start
        if i == self.end or self.buf[i] >> 4 != PUBLISH or getattr(self, "shorter", None):
            return 0
        n = shift = 0
        c = 0x80
        while c & 0x80:
            i += 1
            if i == self.end or shift > 21:
                return 0
            c = self.buf[i]
            n |= (c & 0x7F) << shift
            shift += 7
        self.start = i + 1
        return n

    def _skip_rest(self, left):
        # The packet is the rest of a message of QoS 0 that nobody gets: so many bytes.
        self.flags = self.mid = self.topic_len = self.n = 0
        self._skip = -1
        self._tail = None
        self.left = left
        self.size = left + 1

    # --- sending ---

    def clear(self):
        """What is there to be sent is not needed any more."""
        self.view = self.out
        self.out_at = 0
        self.rest = None  # the payload of which nothing is in the buffer
        self.ready = 0  # bytes in the buffer that wait to be written: a packet was begun
        self.out_left = 0  # bytes of that packet behind the buffer
        self._out_offset = 0  # of the first of them in the record at out_address
        self.out_address = -1
        self._accepted = -1  # address of the record of the PUBLISH in the buffer
        self.forget()

    def forget(self):
        """The PUBLISH that is there is not used for the next message."""
        self._first = 0  # its first byte, with its payload at _payload_at
        self._payload_at = 0
        self._mid_at = 0  # where its Message ID is
        self._form = None

    def put_publish(self, name, payload, qos, retain, mid):
        """Puts a PUBLISH there, name is bytes. Returns how many bytes of it are in the buffer; `rest` is its payload if
        that does not fit, or None. Raises ValueError."""
        buf = self.out
        n = len(payload)
        first = 0x30 | qos << 1 | (1 if retain else 0)
        start = self._payload_at
        self._accepted = -1
        self.rest = None
        if first == self._first and n == self.out_size - start and name is self.name:
            copy(buf, start, payload)
            if qos:
                i = self._mid_at
                buf[i] = mid >> 8
                buf[i + 1] = mid & 0xFF
            return self.out_size
        self._first = 0
        start = self._payload_at = packet.publish(buf, name, n, qos, retain, mid, self.out_block)
        self._mid_at = start - len(self.out_block) - 2
        self.out_size = start + n
        if self.out_size > len(buf):
            self.rest = payload
            return start
        copy(buf, start, payload)
        self._form = copy_format(n, len(buf) - start)
        if self._form and name is self.name:
            self._first = first
        return self.out_size

    def repeat(self, payload, properties):
        """Puts a payload into the PUBLISH of QoS 0, not retained, that is there. Returns the size of the packet, 0 if
        there is none of that length; at level 5 of these properties, too."""
        if self._first != 0x30 or payload.__class__ is not bytes or len(payload) != self.out_size - self._payload_at:
            return 0
        pack_into(self._form, self.out, self._payload_at, payload)
        return self.out_size

    def _append(self, mid, dup):
        # The PUBLISH that is there becomes a record of the journal, with this DUP. Returns its address.
        return self._append_parts(mid, dup, self._payload_at if self.rest else self.out_size, self.rest or b"", b"", 0)

    def _append_parts(self, mid, dup, n, tail, trailer, at):
        buf = self.out
        first = buf[at]
        if first >> 4 != PUBLISH or packet.length(buf, at) != n - at + len(tail):
            raise OSError(ECONNABORTED, "interrupted: the client connects again")  # an operation came in between
        buf[at] = first | dup
        address = self.journal.append(OUT, mid, buf, n, tail, trailer, at)
        buf[at] = first
        return address

    def _keep(self, address):
        # The PUBLISH that is there is the record at `address` now, -1: nobody will ask for it.
        self._accepted = address if self.rest is None else -1
        self.rest = None

    def send(self, n):
        """n bytes of the buffer are to be written next, then `rest`."""
        self.ready = n
        if self.rest is not None:
            self.out_left = len(self.rest)

    def load_publish(self, address, dup):
        """Puts the PUBLISH there that is the record at `address`, with this DUP. Returns how many bytes of it are to be
        written. Raises OSError if the record was damaged."""
        buf = self.out
        self.view = buf
        self.out_at = at = 0
        n = self.out_size
        if address != self._accepted:
            self.forget()
            self.journal.check(address)
            at = self.out_at = self.journal.read(address, 0, buf)
            n = packet.length(buf, at)
            self.check_message(buf[at], n)
            if at + n > len(buf):
                self.rest = None
                self.out_address = address
                self._out_offset = len(buf) - at
                self.out_left = n - self._out_offset
                n = self._out_offset
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
        if first >> 4 != PUBLISH or first & 6 in (0, 6) or n > self.journal.found_len:
            self.journal._fail("a record of the journal is no message")

    def next_part(self):
        """Returns how many bytes of the packet that was begun are to be written next, from the beginning of `out` on
        unless they stand elsewhere."""
        n = self.ready
        if n:
            self.ready = 0
            return n
        n = self.out_left
        if self.rest is not None:
            self.view = self.rest
            self.rest = None
        else:
            self.out_at = self.journal.read(self.out_address, self._out_offset, self.out)
            n = min(n, len(self.out) - self.out_at)
            self._out_offset += n
        self.out_left -= n
        return n


def _whole(buf, start, end):
    # Where the last character of buf[start:end] that is complete ends.
    for i in range(end - 1, max(start, end - 4) - 1, -1):
        if buf[i] < 0x80:
            break
        if buf[i] >= 0xC0:
            return i if end - i < (2 if buf[i] < 0xE0 else 3 if buf[i] < 0xF0 else 4) else end
    return end
