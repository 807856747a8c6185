# Topic aliases of MQTT 5, on messages that leave: the first PUBLISH to a topic gives it a number, those after it have
# the number instead of the topic [MQTT5-3.3.2-7].
#
# A PUBLISH is changed where it stands in the send buffer, when it is about to be written: the journal has none of this.
#
#   before   fixed header   topic   Message ID   length of properties                              properties   payload
#   first    fixed header   topic   Message ID   length of properties   alias                      properties   payload
#   later                   fixed header   no topic   Message ID   length of properties   alias   properties   payload

import inflight.packet as packet

from ..compat import const
from .cursor import ALIAS, digits_for, digits_in

_SIZE = const(3)  # bytes of the property
_SHORTEST = const(5)  # bytes of a topic that is longer than what stands in its place, in any case


def _move(buf, i, end, by):
    # From behind, since most of it moves up; no memory is allocated.
    while end > i:
        end -= 1
        buf[end + by] = buf[end]


class Aliases:
    """The topics that have an alias on this connection, `most` of them: those that were used first."""

    def __init__(self, most):
        self.most = most
        self._topics = []  # the alias is one more than the index; b"": it is free again
        self._mids = []  # Message IDs of the messages that brought them, 0 at QoS 0
        self._allowed = 0

    def allow(self, maximum):
        """A connection begins; CONNACK says how many there may be, 0: none. [MQTT5-3.2.2-17] [MQTT5-3.2.2-18]
        [MQTT5-3.3.2-7]"""
        self._allowed = min(self.most, maximum)
        self._topics.clear()
        self._mids.clear()

    def refused(self, mid):
        """The broker refused a message: nobody knows whether it took the alias that it brought."""
        for i in range(len(self._mids)):
            if self._mids[i] == mid:
                self._topics[i] = b""

    def replace(self, session, n):
        """The first n bytes of a packet are to be written. A PUBLISH gets the alias of its topic. Returns how many
        bytes are to be written then."""
        buf = session.out
        start = session.out_at
        first = buf[start]
        if session.view is not buf or first & 0xF0 != 0x30:
            return n
        size = packet.length(buf, start)
        digits = digits_in(size)
        topic = start + 3 + digits
        end = topic + (buf[topic - 2] << 8 | buf[topic - 1])
        if end - topic < _SHORTEST:
            return n
        id_len = 2 if first & 6 else 0
        at = end + id_len  # of the length of the properties
        properties = buf[at] + _SIZE
        longer = _SIZE + (properties >> 7)
        remaining = size - 1 - digits + longer
        i = self._find(buf, topic, end)
        if i < len(self._topics) and self._topics[i]:  # the head moves up, over the topic
            remaining -= end - topic
            _move(buf, end, at, -longer)
            at -= longer
            topic = at - id_len
            buf[topic - 1] = buf[topic - 2] = 0
            start = topic - 3 - digits_for(remaining)
            n -= start - session.out_at
        else:
            head = digits_for(remaining) - digits
            longer += head
            if i >= self._allowed or start + n + longer > len(buf) or size + longer > session.maximum_out:
                return n  # the next one to this topic may have space
            if i == len(self._topics):
                self._topics.append(b"")
                self._mids.append(0)
            self._mids[i] = buf[end] << 8 | buf[end + 1] if id_len else 0
            self._topics[i] = bytes(buf[topic:end])
            _move(buf, at + 1, start + n, longer)
            _move(buf, topic - 2, at, head)
            at += head
            n += longer
        packet.begin(buf, first, remaining, start)
        if properties > 127:
            buf[at] = properties | 128
            at += 1
            properties = 1
        buf[at] = properties
        buf[at + 1] = ALIAS
        buf[at + 2] = i + 1 >> 8
        buf[at + 3] = i + 1 & 255
        session.forget()
        session.out_at = start
        return n

    def _find(self, buf, topic, end):
        # Returns the index of this topic; else one that is free.
        topics = self._topics
        free = len(topics)
        for i in range(free):
            known = topics[i]
            if not known:
                free = i
            elif len(known) == end - topic:
                k = topic
                while k < end and known[k - topic] == buf[k]:
                    k += 1
                if k == end:
                    return i
        return free
