# The subscriptions of a client: their filters, who handles their messages, and what the broker has granted.

from binascii import crc32
from errno import EACCES, ECONNABORTED, EIO, ENOBUFS, ENOENT

import inflight.counters as counters

from ..compat import const
from ..session.subscribe import encode_all, make_handlers
from ..states import GRANTED, HANDLER, MARK, MATCH, NUMBER, ONLY, PATTERN, POLL, QOS, REQUEST, STREAM
from .options import Options

_FIRST = const(16384)  # Subscription Identifiers take three bytes, so that requests have one length
_NUMBERS = const(2080768)
_NO_MEMORY = const(3)  # how often a message comes again for which there was no memory
_WILDCARDS = b"+#"


class Subscriptions(Options):
    """A client, as far as its subscriptions are concerned."""

    _handlers: "Any" = ()  # type: ignore[name-defined] # noqa: F821  rows: see states
    _message: "Any" = None  # type: ignore[name-defined] # noqa: F821  what handlers get
    # Of a client.
    session: "Any"  # type: ignore[name-defined] # noqa: F821
    _report: "Any"  # type: ignore[name-defined] # noqa: F821
    _failures: tuple

    # --- what the application asks for, and what the broker grants ---

    def _make_handlers(self, filters, qos, handler, stream):
        """Returns the rows of what subscribe() gets. Raises ValueError, also if the buffer is too small for the
        request."""
        handlers = make_handlers(filters, qos, handler, stream, self.session.protocol_level)
        self.session.check_request([h[PATTERN] for h in handlers], _FIRST)
        return handlers

    def _add_handlers(self, handlers):
        """Adds these, in place of those that the same filters have. Returns the filters and their QoS."""
        patterns = [h[PATTERN] for h in handlers]
        found = [h for h in self._handlers if h[PATTERN] not in patterns]
        # The identifier follows from the filter: the broker may have this subscription of an earlier life, with
        # messages that wait.
        taken = [h[NUMBER] for h in found]
        for k, h in enumerate(handlers):
            number = crc32(h[PATTERN]) % _NUMBERS
            while _FIRST + number in taken:
                number = (number + 1) % _NUMBERS
            h[NUMBER] = _FIRST + number
            if h[PATTERN] not in patterns[k + 1 :]:
                found.append(h)
                taken.append(h[NUMBER])
        self._handlers = found  # at once: a filter that the broker has is never without a handler
        return patterns, [h[QOS] for h in handlers]

    def _requests_for(self, patterns, qos):
        """Returns the filters, their QoS and the Subscription Identifier of each SUBSCRIBE that asks for these: with
        identifiers one for each filter, so that copies of one message are told apart."""
        if not getattr(self.session, "identifiers", False):
            return [(patterns, qos, 0)]
        numbers = {h[PATTERN]: h[NUMBER] for h in self._handlers}
        return [([pattern], [q], numbers[pattern]) for pattern, q in zip(patterns, qos) if pattern in numbers]

    def _encode_filters(self, filters):
        """Returns filters, or those of the list that is the only one, as bytes, for UNSUBSCRIBE. Raises ValueError,
        also if the buffer is too small for the request."""
        if len(filters) == 1 and isinstance(filters[0], (list, tuple)):
            filters = filters[0]
        patterns = encode_all(filters, self.session.protocol_level)
        self.session.check_request(patterns)
        return patterns

    def _remove_handlers(self, patterns):
        """Messages of these filters have no handler any more."""
        self._handlers = [h for h in self._handlers if h[PATTERN] not in patterns]

    def _take_granted(self, patterns, handlers):
        """Returns what the broker granted. A filter that it refused keeps its handler, is told, and asked for again at
        the next connection. handlers: among which those are that were added with the request; others of the same filter
        have come since."""
        codes = list(self.session.granted)
        for pattern, code in zip(patterns, codes):
            for h in handlers:
                if h[PATTERN] == pattern:
                    h[GRANTED] = code < 0x80
            if code >= 0x80:
                error = OSError(EACCES, "subscription refused: %s, code %d" % (str(pattern, "utf-8"), code))
                self._report(self.on_error, error)
        return codes

    # --- a connection begins ---

    def _subscribe_again_steps(self):
        """Steps of connecting: asks for each filter that the broker has not granted."""
        for h in self._handlers[:]:
            if not h[GRANTED]:
                yield from self._subscribe_steps(h)

    def _subscribe_steps(self, handler):
        session = self.session
        filters = [handler[PATTERN]]
        try:
            session.check_request(filters, handler[NUMBER])
        except ValueError as e:
            self._report(self.on_error, e)
            return
        session.subscribe(filters, [handler[QOS]], handler[NUMBER])
        yield REQUEST
        while session.request is not None:
            yield POLL
        self._take_granted(filters, [handler])

    # --- a message that was received ---

    def _make_message(self):
        """Loads what messages need, which stays. It comes before SUBSCRIBE leaves: who subscribes hears of too little
        memory."""
        if self.session.protocol_level < 5:
            from .handlers import Message

            self._message = Message(self.session)
        else:
            from .handlers import Message5

            self._message = Message5(self)

    def _has_handler(self):
        """True if the message that was received is for handlers of its own, which are marked then: those of the
        subscriptions that it names, if the client knows one of them, else all whose filter matches."""
        if not self.session.topic_len:
            return False
        if not self._message:
            self._make_message()
        named = self._message.subscriptions
        return (named and self._mark_handlers(named) or self._mark_handlers(None)) > 1

    def _mark_handlers(self, named):
        # Marks filters that match by 1, and each of their handlers once, by 2. Returns 2 if there is a handler, 1 if
        # all of these subscriptions have none, 3 if they get this message by other copies, 0 if there is none.
        session = self.session
        end = session.topic + session.topic_len
        for h in self._handlers:
            h[MARK] = 1 if matches(h[MATCH], session.buf, session.topic, end) else 0
        found = 0
        for h in self._handlers:
            if h[MARK] and (not named or h[NUMBER] in named):
                if self._is_further_copy(h, named):
                    found = found or 3
                elif h[HANDLER] is None:
                    found = 2 if found == 2 else 1
                else:
                    found = h[MARK] = 2
        return found

    def _is_further_copy(self, handler, named):
        # True if the same function gets this message for an earlier subscription: for one that the copy names, too, or
        # for one of whose copy the broker is as sure. A member of a group that shares a subscription may get none.
        for h in self._handlers:
            if h is handler:
                return False
            if h[MARK] and h[HANDLER] == handler[HANDLER] and h[STREAM] == handler[STREAM]:
                if not named or h[NUMBER] in named:
                    return True
                alone = h[PATTERN] == h[MATCH] and handler[PATTERN] == handler[MATCH]
                if alone and h[GRANTED] and h[QOS] ^ handler[QOS] < 4 and h[QOS] >= handler[QOS]:
                    return True
        return False

    def _dispatch(self):
        """Hands the message that was received to its handlers."""
        session = self.session
        message = self._message
        message.failed = 0  # of one that was interrupted
        if not session.topic_len:
            self._topic_too_long()
        elif self._has_handler():
            for h in self._handlers:
                if h[MARK] == 2:
                    self._call_handler(h[HANDLER], h[STREAM], h[ONLY])
        elif self.on_message:
            self._call_handler(self.on_message, False, None)
        elif not session.offset:
            session.count[counters.UNHANDLED] += 1
            if session.count[counters.UNHANDLED] == 1:
                topic = repr(bytes(session.buf[session.topic : session.topic + session.topic_len]))[2:-1]
                self._report(self.on_error, OSError(ENOENT, "no handler takes messages to %s: they are lost" % topic))
        if message.failed or message.again:
            self._end_delivery()

    def _call_handler(self, handler, stream, name):
        session = self.session
        if not stream and session.n != session.size:
            if not session.offset:
                session.count[counters.TOO_LONG] += 1
            return
        message = self._message
        message.name = name
        message.no_memory = False
        try:
            result = handler(message)
            if hasattr(result, "send"):
                result.close()
                raise TypeError("a handler is a plain function: nobody runs the coroutine that it returned")
        except self._failures as e:
            session.count[counters.HANDLER_ERRORS] += 1
            self._report(self.on_error, e)
            if session.flags & 6:
                message.failed = max(message.failed, self._max_redeliveries, _NO_MEMORY if message.no_memory else 0)

    def _topic_too_long(self):
        """The topic of the message, at level 5 with its properties, does not fit the receive buffer. Nobody gets it."""
        session = self.session
        session.deliver = False
        session.count[counters.TOO_LONG] += 1
        text = (
            "message %d of QoS %d is acknowledged and lost: its topic and properties take %d bytes, and the half of "
            "the buffer that receives has %d; choose a larger buffer"
        )
        values = session.mid, session.flags >> 1 & 3, session.topic, len(session.buf)
        self._report(self.on_error, OSError(ENOBUFS, text % values))

    def _end_delivery(self):
        """The handlers of a message have run: one raised (message.failed), or an earlier message has come again
        (message.again). Raises OSError if this one shall come again: it is not acknowledged then, and the connection
        ends. When it has come often enough it is acknowledged, and on_error is told."""
        message = self._message
        session = self.session
        most = failed = message.failed
        if failed and message.again < most:
            message.again += 1
            message.again_mid = session.mid
            raise OSError(ECONNABORTED, "message %d comes again: its handler raised" % session.mid)
        if failed:
            text = "message %d is acknowledged: its handler raised %d times" % (session.mid, message.again + 1)
            self._report(self.on_error, OSError(EIO, text))
        if not session.left and session.flags & 6 and (failed or session.mid == message.again_mid):
            message.again = 0


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
