# Messages of level 5 with their properties, which are read where they stand, when they are asked for. Loaded with the
# first message that is for a handler, or a consumer.

from ..compat import const
from ..level5.cursor import CONTENT_TYPE, CORRELATION, EXPIRY, IN_PUBLISH, RESPONSE_TOPIC, SUBSCRIPTION, TEXT, USER
from .dispatching import Message

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
