# The steps of connecting.

from ..compat import ticks_ms
from ..states import CONNECTING, OPEN, OPENING, OTHER_SESSION, POLL, REQUEST


def steps(client):
    """Connecting as a sequence of steps, which each client takes in its own way. Every step but POLL gives the next
    polls a new time-out."""
    session = client.session
    yield from _open(client)
    session.resume()
    handlers = client._handlers[:]
    for h in handlers:
        if not h[4]:
            yield from _subscribe(client, h)
    if handlers and handlers == client._handlers and all([h[4] for h in handlers]):
        from ..session.subscribe import number

        client.known = number(client)


def _subscribe(client, handler):
    from ..session.subscribe import granted

    session = client.session
    filters = [handler[0]]
    try:
        session.check_request(filters, handler[7])
    except ValueError as e:
        client._report(client.on_error, e)
        return
    session.identifier = handler[7]
    session.subscribe(filters, [handler[1]])
    yield REQUEST
    while session.request is not None:
        yield POLL
    granted(client, filters, [handler])


def _open(client):
    session = client.session
    if client._tls:
        from ..net.transport import check_tls

        check_tls(client._tls)
    silent = client._no_connack
    known = client.known
    client.known = 0  # a CONNECT without an answer may begin a session without subscriptions
    yield from _call(client)
    while session.code == OTHER_SESSION:
        from ..level5.connection5 import leave_other_session

        yield from leave_other_session(client)
        yield from _call(client)
    if session.code:
        client._no_connack = silent
        from ..session.refused import ConnectRefused, slow_down

        slow_down(client, session.code)
        client._back_off(ticks_ms())  # also after connect(); the attempt counts when it is over
        client._attempts -= 1
        raise ConnectRefused(session.code, getattr(session, "reason", ""))
    for mid in session.ended:
        client._report_complete(mid)
    if session.ended:
        session.ended = ()
    if silent or not session.present:
        # The broker has forgotten what it was asked for, or it may have said so in a CONNACK that never came.
        for h in client._handlers:
            h[4] = False
    elif known:
        # Subscriptions are part of the session [MQTT-3.1.2-4] [MQTT5-3.1.2-5].
        from ..session.subscribe import number

        if number(client) == known:
            for h in client._handlers:
                h[4] = True
    client._no_connack = False  # not before: an interrupt above leaves filters that are asked for again


def _call(client):
    # A connection, CONNECT and CONNACK.
    session = client.session
    client._state = OPENING
    yield OPEN
    client._state = CONNECTING
    if client._http_request:
        from ..net.websocket import upgrade_steps

        yield from upgrade_steps(client)
    session.connect(ticks_ms(), client._clean_session, client._keepalive, *client._login, will=client._will)
    client._no_connack = True
    while not (session.connected or session.code):
        yield POLL
