# The consumers of the asyncio client: tasks that take messages by `async for`.
# Messages for them go through the inbox, and reading goes on:
#
#   inbox     a message waits; taken by __anext__() only: whoever is cancelled before that has taken nothing
#   in use    its consumer has an object of its own; its Message ID (QoS 1 and 2) stands in _in_use
#   released  its consumer has asked for the next one, or has ended: PUBACK or PUBREC, in the order received
#   a new connection: the inbox is emptied, the broker sends again what was not acknowledged. A message of QoS 2
#             that is in use is not handed out again, but acknowledged on the new connection when it is released
#
# Who waits for consumers - a message for the full inbox, one for a handler behind unacknowledged ones, an
# acknowledgement behind that of a message still in use - waits while they move, and for a quarter of the time-out
# at most, so that answers of the broker that stand behind it come in time. After that the inbox takes no more: what
# comes for it stays with the broker, unacknowledged (QoS 0 is counted as `unhandled`), until a consumer has emptied it
# and a new connection gets what was left.

import asyncio
from errno import ENOBUFS
from struct import pack_into, unpack_from

import inflight.counters as counters

from ..compat import const, copy, ticks_ms
from ..level5.cursor import IN_PUBLISH, Cursor
from ..packet import compact
from ..states import READING
from .handlers import Fields

_MID = const(0)  # a message in use: Message ID,
_FLAGS = const(1)  # flags of its PUBLISH,
_CONSUMER = const(2)  # the task that took it, None: it is released,
_TRANSPORT = const(3)  # the connection that it came on,
_SINCE = const(4)  # ticks when it was taken
_MAX_IN_USE = const(32)  # with more of them, acknowledgements do not wait for their turn


def not_handled(message):
    # The on_message of a client with consumers. deliver() puts messages into the inbox by itself: what fails in doing
    # so is no handler's error, which would be acknowledged.
    pass


class Consumers:
    """Those of `client`. From now on messages without a handler of their own are for them."""

    def __init__(self, client):
        self._client = client
        self._inbox = Inbox(len(client.session.buf))
        self._make = Received
        if client.session.protocol_level > 4:
            self._make = lambda record: Received5(record, client)
        self._in_use = []  # messages of QoS 1 and 2 that consumers have, in the order received
        self._active_at = 0  # when a consumer asked, or a message came to an empty inbox
        self._skipped = False  # messages for the inbox were left with the broker
        self.reconnect = False  # another connection shall get them: the inbox is empty
        self._session_on = None  # the connection of which it is known what session the broker has
        self.paused = False  # the client waits for consumers
        self.asked = asyncio.Event()  # a consumer did, or time has passed
        self.message_ready = asyncio.Event()  # there is one, or there will be no more

    # --- the client's side ---

    def deliver(self):
        """Takes the message that was received, if it is for consumers. Returns True; False if it is for handlers, whose
        turn it is now; None if consumers have to move first: it is to be called again then."""
        session = self._client.session
        if not session.deliver or session.offset:
            return False
        if session.redelivered and self._holds(session.mid):
            return True  # it is acknowledged when its consumer is through with it
        if self._client._has_handler():
            if session.flags & 6 and (self._in_use or self._inbox.unanswered) and self._waits():
                return None
            self.paused = False
            return False
        if session.n < session.size or not session.topic_len:
            return False  # too long a message, or topic: nobody takes it
        return self._queue()

    def _holds(self, mid):
        # True if this message of QoS 2 waits, or is in use: on this connection from now on.
        for used in self._in_use:
            if used[_MID] == mid and used[_FLAGS] & 4:
                used[_TRANSPORT] = self._client._transport
                return True
        return self._inbox.holds(mid)

    def _queue(self):
        client = self._client
        session = client.session
        inbox = self._inbox
        if inbox.empty:
            self._active_at = ticks_ms()
        if not (self._skipped and session.flags & 6):  # those behind one that was left stay as well: order
            if inbox.put(session, session.redelivered):
                self.paused = False
                session.count[counters.RECEIVED] += 1
                self.message_ready.set()
                return True
            if self._waits():
                return None
        if not session.flags & 6:
            session.count[counters.UNHANDLED] += 1
        elif not self._skipped:
            self._skipped = True
            client._report(client.on_error, OSError(ENOBUFS, "no consumer: messages are left with the broker"))
        return True

    def _waits(self):
        # Returns True while consumers have moved of late.
        self.paused = not self._client._timed_out(self._active_at, 4)
        return self.paused

    def acknowledge(self):
        """Lets the next message go that its consumer is through with. Returns True if there was one. The first call on
        a connection comes between CONNACK and what follows it: if the broker has a new session, Message IDs of the old
        one mean nothing."""
        client = self._client
        transport = client._transport
        if transport is not self._session_on:
            self._session_on = transport
            if transport and not client.session.present:
                if client._clean_session or client.session.protocol_level > 3:
                    self._in_use = []
        for used in self._in_use:
            consumer = used[_CONSUMER]
            if not consumer or consumer.done():
                client.session.acknowledge_received(used[_FLAGS], used[_MID], used[_TRANSPORT] is transport)
                self._in_use.remove(used)  # if the flash fails it is still its consumer's
                return True
            if not (client._closed or len(self._in_use) > _MAX_IN_USE or client._timed_out(used[_SINCE], 4)):
                return False
        return False

    def connection_closed(self):
        self._inbox.clear()
        self._in_use = [used for used in self._in_use if used[_FLAGS] & 4]  # QoS 1 comes again
        self.paused = self._skipped = self.reconnect = False

    # --- the consumer's side ---

    def next(self, consumer):
        """Releases what this task took before. Returns the coroutine that takes its next message."""
        self._release(consumer)
        return self._take(consumer)

    def _release(self, consumer):
        client = self._client
        self._active_at = ticks_ms()
        for used in self._in_use:
            if used[_CONSUMER] is consumer:
                used[_CONSUMER] = None
        client._try_flush()
        try:
            while not client._transport and self.acknowledge():
                pass
        except OSError:
            pass  # the flash failed: once more on the next connection
        self.asked.set()

    async def _take(self, consumer):
        client = self._client
        while not client._closed:
            client._guard |= READING
            try:
                message = self._inbox.take(self._make)
                if message and message.qos:
                    self._in_use.append([message.mid, message.qos << 1, consumer, client._transport, self._active_at])
                client._guard &= ~READING
                if message:
                    return message
            except BaseException:  # nobody has it: it comes again, on another connection
                client._guard |= READING
                for used in self._in_use:
                    if used[_CONSUMER] is consumer:
                        self._in_use.remove(used)
                raise
            if self._skipped:
                self.reconnect = True
                client._wake()
            self.message_ready.clear()
            await self.message_ready.wait()
            self._active_at = ticks_ms()
        if client._last_error:
            raise client._last_error
        raise StopAsyncIteration


# --- the inbox ---
# Where messages wait: a queue of bytes of its own, so that reading goes on and
# nothing that the peer sends takes more memory. A record is its length, flags, redelivered, the topic's length, then
# topic, Message ID (QoS 1 and 2), properties (level 5) and payload as they came.

_HEAD = const(8)


class Received:
    """A message that a consumer took, an object of its own. Fields as those of Message in handlers."""

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
        from .handlers import no_property

        return no_property(name)

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


# --- messages of level 5 ---


class Received5(Fields, Received):
    """A Received of level 5."""

    def __init__(self, record, client):
        super().__init__(record)
        self._client = client

    def _body(self, record, i):
        behind = Cursor(record).start(i, len(record), IN_PUBLISH)
        self._block = bytes(record[i:behind])
        return behind

    def _cursor(self):
        cursor = Cursor(self._block)
        cursor.start(0, len(self._block), IN_PUBLISH)
        return cursor
