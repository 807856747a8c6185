# Where messages wait for a consumer of the asyncio client: a queue of bytes of its own, so that reading goes on and
# nothing that the peer sends takes more memory. A record is its length, flags, redelivered, the topic's length, where
# the payload begins, then topic, Message ID (QoS 1 and 2), properties (level 5) and payload as they came.

from struct import pack_into

from .compat import const, copy
from .packet import compact

_HEAD = const(8)


class Received:
    """A message that a consumer took, an object of its own: it stays what it is. Fields as those of base.Message."""

    offset = 0

    def __init__(self, record):
        flags = record[2]
        topic_end = _HEAD + (record[4] << 8 | record[5])
        self.topic = str(record[_HEAD:topic_end], "utf-8")
        self.qos = flags >> 1 & 3
        self.retain = flags & 1 == 1
        self.dup = flags & 8 == 8
        self.redelivered = record[3] == 1
        self.mid = record[topic_end] << 8 | record[topic_end + 1] if self.qos else 0
        body = _HEAD + (record[6] << 8 | record[7])
        self._block = bytes(record[topic_end + (2 if self.qos else 0) : body])  # the properties of level 5
        self.payload = bytes(record[body:])
        self.size = len(self.payload)

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

    def put(self, decoder, redelivered):
        """Copies the message that decoder has. Returns False if there is no space now."""
        n = decoder.at + decoder.n - decoder.topic
        if self._end + _HEAD + n > len(self._buf):
            self._end = compact(self._buf, self._start, self._end)
            self._start = 0
            if self._end + _HEAD + n > len(self._buf):
                return False
        buf = self._buf
        at = self._end
        copy(buf, at + _HEAD, decoder.buf[decoder.topic : decoder.topic + n])
        body = decoder.at - decoder.topic
        pack_into(">HBBHH", buf, at, _HEAD + n, decoder.flags, redelivered, decoder.topic_len, body)
        self._end = at + _HEAD + n
        if decoder.flags & 6:
            self.unanswered += 1
        return True

    def _record(self, at):
        return self._buf[at : at + (self._buf[at] << 8 | self._buf[at + 1])]

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
            topic_end = _HEAD + (record[4] << 8 | record[5])
            if record[2] & 4 and record[topic_end] << 8 | record[topic_end + 1] == mid:
                return True
            at += len(record)
        return False
