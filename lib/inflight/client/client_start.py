# How a client begins: its session, and its fields. Loaded when it is made, after its arguments were checked: that takes
# a module of its own, since together they would need more heap than what comes later.

from ..compat import ticks_ms
from ..session.session import Session


def start(client, level_5, arguments):
    """What options.configure() returns: the arguments for level 5 alone, and those of a Session. Raises ValueError."""
    # [filter, qos, handler, stream, the broker has been asked for it, the only topic or None, what names match,
    #  the Subscription Identifier of its subscribe(), it is for the message that dispatching has]
    client._handlers = ()
    client._no_connack = False  # the last CONNECT had no answer
    client._topic = None  # the last topic published to; the session has it as bytes
    client._attach = None  # gives the next message its properties, at level 5
    if arguments[3] == 5:
        _start_level_5(client, level_5, arguments)
    else:
        client.session = Session(*arguments)
    # Whether CONNECT fits the buffer shows now, not on the way.
    from ..session.connect import write

    user, password = client._login
    write(client.session, client._clean_session, client._keepalive, user, password, client._will)
    client._transport = None
    client._broken = None  # the error that ends the connection, after what goes on: a handler, or another task
    client._message = None  # what handlers get: see dispatching
    client._state = client._guard = 0  # see states
    client._last_error = None  # the error that ended the last connection, or attempt
    client._attempts = 0
    client._connected_at = None  # since when the connection stands
    client._next_attempt = ticks_ms()  # the time of the next attempt to connect


def _start_level_5(client, level_5, arguments):
    from ..level5.handshake5 import LONGEST_STALL_MS, check

    session_expiry, slept, auth, aliases, stall_ms, connect_properties = level_5
    _, max_inflight, _, _, retry_ms, _, timeout_ms = arguments[3:]
    if stall_ms is None:
        stall_ms = max(60_000, 4 * timeout_ms)
        if stall_ms > LONGEST_STALL_MS:
            stall_ms = 0
    clean_session = client._clean_session
    check(session_expiry, clean_session, stall_ms, max_inflight, retry_ms, timeout_ms)
    client.session = new_session(session_expiry, clean_session, slept, stall_ms, *arguments)
    client._attach = client.session.attach
    if connect_properties is not None:
        from ..level5.connect_properties import attach

        attach(client.session, connect_properties)
    if aliases:
        from ..level5.aliases5 import Aliases

        client.session.aliases = Aliases(aliases)
    if auth is not None:
        auth.attach(client.session)


def new_session(session_expiry, clean_session, slept, stall_ms, journal, buffer, name, *settings):
    from ..level5.mqtt5 import Session5

    given = {"adopt": not (name or clean_session), "session_expiry": session_expiry or 0xFFFFFFFF, "stall_ms": stall_ms}
    made = Session5(journal, buffer, name, *settings, **given)
    if journal and journal.live:
        from ..level5.stored5 import check_space

        check_space(journal, len(made.out))
    if made.clock:
        made.clock.add(slept)
    return made
