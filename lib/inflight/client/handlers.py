# What handlers get.

from ..compat import const
from ..level5.cursor import CONTENT_TYPE, CORRELATION, EXPIRY, IN_PUBLISH, RESPONSE_TOPIC, SUBSCRIPTION, TEXT, USER


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
