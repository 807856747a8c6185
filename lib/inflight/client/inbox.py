# Where messages wait for a consumer of the asyncio client: a queue of bytes of its own, so that reading goes on and
# nothing that the peer sends takes more memory. A record is its length, flags, redelivered, the topic's length, then
# topic, Message ID (QoS 1 and 2), properties (level 5) and payload as they came.

from struct import pack_into, unpack_from

from ..compat import const, copy
from ..packet import compact

_HEAD = const(8)


class Received:
    """A message that a consumer took, an object of its own: it stays what it is. Fields as those of base.Message."""

    offset = 0

    def __init__(self, record):
        _, flags, redelivered, topic_end = unpack_from(">IBBH", record)
        topic_end += _HEAD
        self.topic = str(record[_HEAD:topic_end], "utf-8")
        self.qos = flags >> 1 & 3
        self.retain = flags & 1 == 1
        self.dup = flags & 8 == 8
        self.redelivered = redelivered == 1
        self.mid = record[topic_end] << 8 | record[topic_end + 1] if self.qos else 0
        self.payload = bytes(record[self._body(record, topic_end + (2 if self.qos else 0)) :])
        self.size = len(self.payload)

    def __getattr__(self, name):
        # The properties of level 5.
        from .no_properties import field

        return field(name)

    def _body(self, record, i):
        # Where the payload begins: level 5 has properties in front of it.
        return i

    @property
    def view(self):
        return memoryview(self.payload)


class Inbox:
    """Messages in the order in which they came, as many as fit: at least any one that a receive buffer of `size`
    bytes holds whole."""

    def __init__(self, size):
        self._buf = memoryview(bytearray(size + 4))  # fixed header and lengths take 4 bytes of a packet, 8 of a record
        self.clear()

    def clear(self):
        self._start = self._end = 0
        self.unanswered = 0  # messages of QoS 1 and 2

    @property
    def empty(self):
        return self._start == self._end

    def put(self, session, redelivered):
        """Copies the message that was received. Returns False if there is no space now."""
        n = session.at + session.n - session.topic
        if self._end + _HEAD + n > len(self._buf):
            self._end = compact(self._buf, self._start, self._end)
            self._start = 0
            if self._end + _HEAD + n > len(self._buf):
                return False
        buf = self._buf
        at = self._end
        copy(buf, at + _HEAD, session.buf[session.topic : session.topic + n])
        pack_into(">IBBH", buf, at, _HEAD + n, session.flags, redelivered, session.topic_len)
        self._end = at + _HEAD + n
        if session.flags & 6:
            self.unanswered += 1
        return True

    def _record(self, at):
        return self._buf[at : at + unpack_from(">I", self._buf, at)[0]]

    def take(self, make):
        """Returns the oldest message, make(record); None if there is none."""
        if self.empty:
            return None
        record = self._record(self._start)
        message = make(record)
        self._start += len(record)
        if message.qos:
            self.unanswered -= 1
        return message

    def holds(self, mid):
        """True if a message of QoS 2 with this Message ID waits."""
        at = self._start
        while at < self._end:
            record = self._record(at)
            _, flags, _, topic_end = unpack_from(">IBBH", record)
            topic_end += _HEAD
            if flags & 4 and record[topic_end] << 8 | record[topic_end + 1] == mid:
                return True
            at += len(record)
        return False
