# Messages and their handlers. Loaded with the first message that is for one, and then each message needs it.

import inflight.counters as counters

from ..compat import const

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
        from .no_properties import field

        return field(name)

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
    # Marks one handler for each subscribe() that has a filter that matches. Returns 2 if there is one, 1 if all of
    # these subscriptions have none, 0 if there is no subscription.
    session = client.session
    end = session.topic + session.topic_len
    found = last = 0
    for h in client._handlers:
        h[8] = False
        if h[7] != last and (not named or h[7] in named) and matches(h[6], session.buf, session.topic, end):
            last = h[7]
            h[8] = h[2] is not None
            found = 2 if h[8] else found or 1
    return found


def dispatch(client):
    """Hands the message that was received to its handlers."""
    session = client.session
    if not session.topic_len:
        from .undelivered import topic_too_long

        topic_too_long(client)
    elif has_handler(client):
        for h in client._handlers:
            if h[8]:
                _call(client, h[2], h[3], h[5])
    elif client._on_message:
        _call(client, client._on_message, False, None)
    elif not session.offset:
        client.session.count[counters.UNHANDLED] += 1
    message = client._message
    if message.failed or message.again:
        from .undelivered import handled

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
