# Messages, and their handlers.

from errno import ECONNABORTED, EIO, ENOBUFS, ENOENT

import inflight.counters as counters

from ..compat import const
from ..errors import printable
from ..level5.cursor import CONTENT_TYPE, CORRELATION, EXPIRY, IN_PUBLISH, RESPONSE_TOPIC, SUBSCRIPTION, TEXT, USER

_WILDCARDS = b"+#"
_NO_MEMORY = const(3)  # how often a message comes again for which there was no memory


class Message:
    """What a handler gets: one object, valid until the handler returns.

    qos, retain, dup; mid: its Message ID, 0 at QoS 0; redelivered: power was cut while an earlier handler ran, or it
    raised (QoS 2); offset, size: where this piece stands in the payload, 0 and its length for whole messages."""

    subscriptions = None  # at level 5 the identifiers of the subscriptions that it came for, up to a 0

    def __init__(self, session):
        self._session = session
        self.name = None  # the topic if it is known: a filter without wildcards has no other
        self.no_memory = False  # for its topic or payload
        self.failed = 0  # handlers raised: so often is it to come again
        self.again = self.again_mid = 0  # how often a message has come again so, and its Message ID

    def __getattr__(self, name):
        # The properties of level 5.
        return no_property(name)

    @property
    def topic(self):
        """The topic name, a str: a new one, unless the filter says it all."""
        session = self._session
        try:
            return self.name or str(session.buf[session.topic : session.topic + session.topic_len], "utf-8")
        except MemoryError:
            self.no_memory = True
            raise

    @property
    def payload(self):
        """The payload (or this piece of it), new bytes."""
        try:
            return bytes(self.view)
        except MemoryError:
            self.no_memory = True
            raise

    @property
    def view(self):
        """The payload where it stands in the receive buffer, a memoryview: no copy."""
        session = self._session
        return session.buf[session.at : session.at + session.n]

    @property
    def qos(self):
        return self._session.flags >> 1 & 3

    @property
    def mid(self):
        session = self._session
        return session.mid if session.flags & 6 else 0

    @property
    def retain(self):
        return self._session.flags & 1 == 1

    @property
    def dup(self):
        return self._session.flags & 8 == 8

    @property
    def redelivered(self):
        return self._session.redelivered

    @property
    def offset(self):
        return self._session.offset

    @property
    def size(self):
        return self._session.size


def attach(client):
    """Returns dispatch() and the message that it hands to handlers."""
    session = client.session
    return dispatch, Message(session) if session.protocol_level < 5 else Message5(client)


def has_handler(client):
    """True if the message that was received is for handlers of its own, which are marked then: those of the
    subscriptions that it names, if the client knows one of them, else all whose filter matches."""
    if not client.session.topic_len:
        return False
    if not client._message:
        client._load_dispatching()
    named = client._message.subscriptions
    return (named and _mark(client, named) or _mark(client, None)) > 1


def _mark(client, named):
    # Marks filters that match by 1, and each of their handlers once, by 2. Returns 2 if there is a handler, 1 if all of
    # these subscriptions have none, 3 if they get this message by other copies, 0 if there is no subscription.
    session = client.session
    end = session.topic + session.topic_len
    for h in client._handlers:
        h[8] = 1 if matches(h[6], session.buf, session.topic, end) else 0
    found = 0
    for h in client._handlers:
        if h[8] and (not named or h[7] in named):
            if _is_further_copy(client, h, named):
                found = found or 3
            elif h[2] is None:
                found = 2 if found == 2 else 1
            else:
                found = h[8] = 2
    return found


def _is_further_copy(client, handler, named):
    # True if the same function gets this message for an earlier subscription: for one that the copy names, too, or for
    # one of whose copy the broker is as sure. A member of a group that shares a subscription may get none.
    for h in client._handlers:
        if h is handler:
            return False
        if h[8] and h[2] == handler[2] and h[3] == handler[3]:
            if not named or h[7] in named:
                return True
            if h[4] and h[1] ^ handler[1] < 4 and h[1] >= handler[1] and h[0] == h[6] and handler[0] == handler[6]:
                return True
    return False


def dispatch(client):
    """Hands the message that was received to its handlers."""
    session = client.session
    if not session.topic_len:
        topic_too_long(client)
    elif has_handler(client):
        for h in client._handlers:
            if h[8] == 2:
                _call(client, h[2], h[3], h[5])
    elif client.on_message:
        _call(client, client.on_message, False, None)
    elif not session.offset:
        if not session.count[counters.UNHANDLED]:
            topic = printable(str(session.buf[session.topic : session.topic + session.topic_len], "utf-8"))
            client._report(client.on_error, OSError(ENOENT, "no handler takes messages to %s: they are lost" % topic))
        session.count[counters.UNHANDLED] += 1
    message = client._message
    if message.failed or message.again:
        handled(client)


def _call(client, handler, stream, name):
    session = client.session
    if not stream and session.n != session.size:
        if not session.offset:
            client.session.count[counters.TOO_LONG] += 1
        return
    message = client._message
    message.name = name
    message.no_memory = False
    try:
        result = handler(message)
        if hasattr(result, "send"):
            result.close()
            raise TypeError("a handler is a plain function: nobody runs the coroutine that it returned")
    except client._failures as e:
        client.session.count[counters.HANDLER_ERRORS] += 1
        client._report(client.on_error, e)
        if session.flags & 6:
            message.failed = max(message.failed, client._max_redeliveries, _NO_MEMORY if message.no_memory else 0)


def matches(pattern, buf, i, end):
    """True if the topic name buf[i:end] matches the filter `pattern` (bytes), byte for byte.
    Wildcards at the front do not match names with $. [MQTT-4.7.2-1, 4.7.3-4]"""
    if buf[i] == 0x24 and pattern[0] in _WILDCARDS:
        return False
    n = len(pattern)
    for k in range(n):
        c = pattern[k]
        if c == 0x23:  # '#'
            return True
        if c == 0x2B:  # '+'
            while i < end and buf[i] != 0x2F:
                i += 1
        elif i < end and buf[i] == c:
            i += 1
        else:
            # "a/#" matches its parent "a" as well.
            return i == end and c == 0x2F and k + 2 == n and pattern[k + 1] == 0x23
    return i == end


# --- messages that handlers did not get, or raised on ---


def topic_too_long(client):
    """The topic of the message, at level 5 with its properties, does not fit the receive buffer. Nobody gets it."""
    session = client.session
    session.deliver = False
    session.count[counters.TOO_LONG] += 1
    text = (
        "message %d of QoS %d is acknowledged and lost: its topic and properties take %d bytes, and the half of the "
        "buffer that receives has %d; choose a larger buffer"
    )
    values = session.mid, session.flags >> 1 & 3, session.topic, len(session.buf)
    client._report(client.on_error, OSError(ENOBUFS, text % values))


def handled(client):
    """The handlers of a message have run: one raised (message.failed), or an earlier message has come again
    (message.again). Raises OSError if this one shall come again: it is not acknowledged then, and the connection ends.
    When it has come often enough it is acknowledged, and on_error is told."""
    message = client._message
    session = client.session
    most = failed = message.failed
    message.failed = 0
    if failed and message.again < most:
        message.again += 1
        message.again_mid = session.mid
        raise OSError(ECONNABORTED, "message %d comes again: its handler raised" % session.mid)
    if failed:
        text = "message %d is acknowledged: its handler raised %d times" % (session.mid, message.again + 1)
        client._report(client.on_error, OSError(EIO, text))
    if not session.left and session.flags & 6 and (failed or session.mid == message.again_mid):
        message.again = 0


# --- what a message of levels 3 and 4 has in place of the properties of level 5 ---


def no_property(name):
    """The property of a message that has none. Raises AttributeError for other names."""
    if name == "user":
        return []
    if name == "text":
        return False
    if name == "reply":
        return _reply
    if name in ("expiry", "content_type", "response_topic", "correlation"):
        return None
    raise AttributeError(name)


def _reply(payload=b"", qos=0, retain=False):
    raise ValueError("reply() needs protocol_level=5: at levels 3 and 4 no message tells where an answer is expected")


# --- messages of level 5 ---
# Their properties are read where they stand, when they are asked for.

_MOST_SUBSCRIPTIONS = const(8)  # of one message that are told apart


class Fields:
    """What a message of level 5 has besides."""

    def _find(self, kind):
        cursor = self._cursor()
        return cursor if cursor.find(kind) else None

    @property
    def expiry(self):
        """Seconds until the message is of no use any more, None: no limit. [MQTT5-3.3.2-6]"""
        found = self._find(EXPIRY)
        return found and found.number()

    @property
    def content_type(self):
        """A str, or None."""
        found = self._find(CONTENT_TYPE)
        return found and found.text()

    @property
    def response_topic(self):
        """Where an answer is expected, a str; None: nowhere. [MQTT5-3.3.2-15]"""
        found = self._find(RESPONSE_TOPIC)
        return found and found.text()

    @property
    def correlation(self):
        """Bytes that the answer shall carry again, or None. [MQTT5-3.3.2-16]"""
        found = self._find(CORRELATION)
        return found and found.data()

    @property
    def text(self):
        """True if the sender says that the payload is UTF-8; it is not checked."""
        found = self._find(TEXT)
        return bool(found and found.number())

    @property
    def user(self):
        """[(name, value), ...] in the order in which they came; a name may be there more than once. [MQTT5-3.3.2-17]
        [MQTT5-3.3.2-18]"""
        cursor = self._cursor()
        pairs = []
        while cursor.find(USER):
            pairs.append(cursor.pair())
        return pairs

    def reply(self, payload=b"", qos=0, retain=False):
        """Publishes an answer to its response topic, with its correlation data. Returns what publish() of the client
        does; with asyncio, that is to be awaited, or run as a task. None: no answer is expected. Raises as publish(),
        and ValueError if the correlation data has more than 124 bytes."""
        from ..level5.properties5 import properties

        topic = self.response_topic
        if topic is None:
            return None
        return self._client.publish(topic, payload, qos, retain, properties(correlation=self.correlation))


class Message5(Fields, Message):
    """A Message of level 5, of which the handler gets one."""

    def __init__(self, client):
        super().__init__(client.session)
        self._client = client
        self._subscriptions = [0] * (_MOST_SUBSCRIPTIONS + 1)

    def _cursor(self):
        return self._session.properties(IN_PUBLISH)

    @property
    def subscriptions(self):  # type: ignore[override]
        # [MQTT5-3.3.4-3] [MQTT5-3.3.4-4]
        session = self._session
        found = self._subscriptions
        n = 0
        if session.buf[session.block]:
            found[0] = session.subscription_identifier(session.block, len(session.buf))
            n = 1
        if n and not found[0]:
            cursor = self._cursor()
            n = 0
            while n <= _MOST_SUBSCRIPTIONS and cursor.find(SUBSCRIPTION):
                found[n] = cursor.identifier()
                n += 1
        if not n or n > _MOST_SUBSCRIPTIONS:
            return None
        found[n] = 0
        return found
